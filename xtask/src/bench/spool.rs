//! A forwarding directory that the daemon serves: from giving an answer until its response is in place, as a process
//! sees it that watches for the file.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::http::Http;
use super::report::{Report, Target, micros};
use super::samples::Samples;
use super::world::World;

const ROW: &str = "spool: answer given → response in place";
/// Most at the median, in microseconds.
const MOST: f64 = 5000.0;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn measure(world: &World, report: &mut Report) {
    if let Err(error) = answers(world, report) {
        report.failed(ROW, &error);
    }
}

fn answers(world: &World, report: &mut Report) -> Result<()> {
    let tree = world.place("tree")?;
    let config = format!("[spool]\ndirs = [{:?}]\n", tree.display().to_string());
    let daemon = world.daemon_with("spool", &config)?;
    let mut people = Http::connect(&daemon.answer)?;
    let session = tree.join("sessions/bench");
    std::fs::create_dir_all(session.join("requests"))?;
    let (mut placed, mut seen) = (Samples::default(), Samples::default());
    for count in 0..world.count(500) {
        let stem = format!("r{count}");
        let (request, response) = (file(&session, "requests", &stem), file(&session, "responses", &stem));
        let text = json!({ "askd": 1, "id": stem, "tool": "Bash", "input": { "command": stem } }).to_string();
        let unfinished = request.with_extension("tmp");
        std::fs::write(&unfinished, text)?;
        let asked = Instant::now();
        std::fs::rename(&unfinished, &request)?;
        let ask = open(&mut people, &stem)?;
        seen.push(asked.elapsed());
        let id = ask["id"].as_str().context("an ask without an id")?;
        let body = json!({ "decision": "allow", "digest": ask["digest"], "surface": "bench" }).to_string();
        let given = Instant::now();
        let (status, answer) =
            people.request("POST", &format!("/v1/asks/{id}/answer"), "", body.as_bytes())?;
        if status != 200 {
            bail!("{status}: {}", String::from_utf8_lossy(&answer));
        }
        while !response.exists() {
            if given.elapsed() > PATIENCE {
                bail!("no response to {stem}");
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        placed.push(given.elapsed());
        std::fs::remove_file(response)?;
        std::fs::remove_file(request)?;
    }
    report.samples("spool_answer_to_response", &placed);
    report.samples("spool_request_to_ask", &seen);
    let own = placed.p50();
    report.row(ROW, micros(own), format!("most {}", micros(MOST)), own / MOST, Target::AtMost(1.0));
    Ok(())
}

fn file(session: &Path, of: &str, stem: &str) -> std::path::PathBuf {
    session.join(of).join(format!("{stem}.json"))
}

/// The open ask with this command.
fn open(people: &mut Http, command: &str) -> Result<Value> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let (_, asks) = people.request("GET", "/v1/asks?state=open", "", b"")?;
        let asks: Vec<Value> = serde_json::from_slice(&asks)?;
        if let Some(ask) = asks.into_iter().find(|ask| ask["action"]["input"]["command"] == command) {
            return Ok(ask);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    bail!("{command} was not asked")
}
