//! The real daemon: one ask at a time, and many at once. Requesters and answerers are processes of their own, as
//! they are in life; who asks may not answer.

use std::collections::HashSet;
use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::baseline::{Commits, Trips, group_commit, join};
use super::http::Http;
use super::report::{Report, Target, micros};
use super::samples::Samples;
use super::world::World;
use super::{BODY, REQUESTERS};

/// Ask → answer on another connection → requester has it, durable.
const ROUND_TRIP: &str = "durable round trip, ask to outcome";
/// Each ask and each answer is durable.
const CROWD: &str = "128 requesters at once, over HTTP";

/// One requester, one answerer, against two commits and three socket round trips.
pub(crate) fn measure_round_trip(world: &World, report: &mut Report) {
    if let Err(error) = round_trip(world, report) {
        report.failed(ROUND_TRIP, &error);
    }
}

fn round_trip(world: &World, report: &mut Report) -> Result<()> {
    let place = world.place("baseline")?;
    let mut commits = Commits::new(&place.join("commits"))?;
    let mut trips = Trips::new(world, &place)?;
    let daemon = world.daemon("round")?;
    let _answerer = world.helper(&["answerer", &daemon.answer])?;
    let asks = world.count(500).to_string();
    let (mut commit, mut trip, mut whole) = (Samples::default(), Samples::default(), Samples::default());
    // In turns, so that a busy moment of the machine falls on all of them.
    for _ in 0..4 {
        commit.extend(commits.measure(world.count(500))?);
        trip.extend(trips.measure(world.count(500))?);
        let result = world.helper(&["requester", &daemon.ask, "1", &asks])?.result()?;
        whole.extend(times(&result)?);
    }
    let base = 2.0 * commit.p50() + 3.0 * trip.p50();
    report.samples("sqlite_commit", &commit);
    report.samples("socket_round_trip", &trip);
    report.samples("ask_round_trip", &whole);
    let p50 = whole.p50();
    report.row(ROUND_TRIP, micros(p50), micros(base), p50 / base, Target::AtMost(1.5));
    Ok(())
}

/// Many requesters, against the raw group commit of as many events.
pub(crate) fn measure_crowd(world: &World, report: &mut Report) {
    if let Err(error) = crowd(world, report) {
        report.failed(CROWD, &error);
    }
}

fn crowd(world: &World, report: &mut Report) -> Result<()> {
    let place = world.place("crowd-baseline")?;
    let asks = world.count(100);
    let (mut raw, mut rate) = (Vec::new(), Vec::new());
    for turn in 0..3 {
        // A daemon for each turn: settled asks stay for a while, and no owner may have all places.
        let daemon = world.daemon(&format!("crowd{turn}"))?;
        let _answerer = world.helper(&["answerer", &daemon.answer, "--together"])?;
        // An ask and its answer are two events.
        raw.push(group_commit(&place.join(turn.to_string()), REQUESTERS, 2 * asks)?);
        let requesters = REQUESTERS.to_string();
        let result = world.helper(&["requester", &daemon.ask, &requesters, &asks.to_string()])?.result()?;
        rate.push(2.0 * (REQUESTERS * asks) as f64 / seconds(&result)?);
    }
    let (raw, rate) = (middle(raw), middle(rate));
    report.figure("group_commit_events_per_second", json!(raw));
    report.figure("http_events_per_second", json!(rate));
    report.row(CROWD, per_second(rate), per_second(raw), rate / raw, Target::AtLeast(0.2));
    Ok(())
}

/// The median of a few figures.
pub(crate) fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// A rate for people.
pub(crate) fn per_second(rate: f64) -> String {
    format!("{rate:.0} events/s")
}

fn times(result: &Value) -> Result<Samples> {
    let mut samples = Samples::default();
    for micros in result.get("micros").and_then(Value::as_array).context("no times")? {
        samples.push_micros(micros.as_f64().context("a time that is no number")?);
    }
    Ok(samples)
}

fn seconds(result: &Value) -> Result<f64> {
    result.get("seconds").and_then(Value::as_f64).context("no time")
}

/// Child: `requesters` connections, each raising `asks` asks one after the other and waiting for the outcome.
pub(crate) fn requester(socket: &str, requesters: usize, asks: usize) -> Result<()> {
    let mut connections = Vec::new();
    for _ in 0..requesters {
        connections.push(Http::connect(socket)?);
    }
    say("ready")?;
    let start = Instant::now();
    let threads: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(number, connection)| thread::spawn(move || ask(connection, number, asks)))
        .collect();
    let mut micros = Vec::new();
    for thread in threads {
        micros.extend(join(thread)?);
    }
    say(&json!({ "seconds": start.elapsed().as_secs_f64(), "micros": micros }).to_string())
}

fn ask(mut connection: Http, number: usize, asks: usize) -> Result<Vec<f64>> {
    let process = std::process::id();
    let token = format!("{process:016x}{number:016x}");
    let headers = format!("authorization: Bearer {token}\r\n");
    let padding = "x".repeat(BODY);
    let mut micros = Vec::with_capacity(asks);
    for count in 0..asks {
        let body = format!(
            r#"{{"key":"bench/{process}/{number}/{count}","action":{{"tool":"Bash","input":{{"command":"echo {count} {padding}"}},"cwd":"/"}},"agent":"bench","session":"bench-{number}","requester":"library","grace_secs":60}}"#
        );
        let start = Instant::now();
        let (status, answer) = connection.request("POST", "/v1/asks?wait=60", &headers, body.as_bytes())?;
        micros.push(start.elapsed().as_secs_f64() * 1e6);
        let raised: Raised = serde_json::from_slice(&answer)
            .with_context(|| format!("{status}: {}", String::from_utf8_lossy(&answer)))?;
        if raised.ask.outcome.is_none_or(|outcome| outcome.outcome != "allowed") {
            bail!("an ask ended otherwise than answered, {status}: {}", String::from_utf8_lossy(&answer));
        }
    }
    Ok(micros)
}

/// The part of a reply that a requester needs.
#[derive(Deserialize)]
struct Raised {
    ask: Over,
}

#[derive(Deserialize)]
struct Over {
    outcome: Option<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    outcome: String,
}

/// The part of an event that an answerer needs.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    ask: Option<Open>,
}

#[derive(Deserialize)]
struct Open {
    id: String,
    digest: String,
    state: String,
}

/// Child: reads the event stream and allows every ask. With one requester whoever reads is who answers: a hop to another
/// thread would be none of the daemon's. With many, what came while an answer was under way is answered together, as a
/// program does that answers for many; so nobody waits for an answerer.
pub(crate) fn answerer(socket: &str, together: bool) -> Result<()> {
    let mut connection = Http::connect(socket)?;
    if !together {
        return each_open(socket, |open| allow(&mut connection, &open));
    }
    let (sender, receiver) = mpsc::channel::<Open>();
    thread::spawn(move || {
        while let Ok(first) = receiver.recv() {
            let all: Vec<Open> = std::iter::once(first).chain(receiver.try_iter()).collect();
            if let Err(error) = allow_all(&mut connection, &all) {
                eprintln!("an answer failed: {error:#}");
                return;
            }
        }
    });
    each_open(socket, |open| Ok(sender.send(open)?))
}

/// Calls `each` with every ask that is open, once, until the stream ends.
fn each_open(socket: &str, mut each: impl FnMut(Open) -> Result<()>) -> Result<()> {
    let mut seen = HashSet::new();
    Http::connect(socket)?.events("/v1/events", |data| {
        let event: Event = serde_json::from_str(data).with_context(|| data.to_owned())?;
        if event.kind == "snapshot" {
            say("ready")?;
        }
        if let Some(open) = event.ask
            && open.state == "open"
            && seen.insert(open.id.clone())
        {
            each(open)?;
        }
        Ok(true)
    })
}

fn allow(connection: &mut Http, open: &Open) -> Result<()> {
    let body = format!(r#"{{"decision":"allow","digest":"{}","surface":"bench"}}"#, open.digest);
    let path = format!("/v1/asks/{}/answer", open.id);
    let (status, answer) = connection.request("POST", &path, "", body.as_bytes())?;
    if status != 200 {
        bail!("{status}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

fn allow_all(connection: &mut Http, all: &[Open]) -> Result<()> {
    let answers: Vec<_> = all
        .iter()
        .map(|open| json!({ "id": open.id, "decision": "allow", "digest": open.digest, "surface": "bench" }))
        .collect();
    let body = serde_json::to_vec(&answers)?;
    let (status, answer) = connection.request("POST", "/v1/answers", "", &body)?;
    let reports: Vec<Answered> = serde_json::from_slice(&answer)
        .with_context(|| format!("{status}: {}", String::from_utf8_lossy(&answer)))?;
    match reports.iter().find(|report| report.status != 200) {
        None if reports.len() == all.len() => Ok(()),
        _ => bail!("{status}: {}", String::from_utf8_lossy(&answer)),
    }
}

/// The part of a report on one answer of several that an answerer needs.
#[derive(Deserialize)]
struct Answered {
    status: u16,
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
