//! A host with a very small model: it makes the calls that are typed, one message a line, calls separated by `;`.
//!
//! ```text
//! cargo run -p askd-client --example doom_loop
//! make test
//! make test
//! make test          ← asks: answer in `askd`, or with `askd allow …` in another terminal
//! ```
//!
//! An empty line is a new turn of the person.

use std::io::{BufRead, stdin};

use askd_client::{Asker, Call, DoomLoop, LoopResult, Places, Unavailable};
use askd_wire::RaiseAsk;
use serde_json::json;

/// The model has one thread.
const THREAD: &str = "main";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut asker = Asker::new(Places::from_env()?, None)?;
    let mut gate = DoomLoop::new();
    for line in stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            gate.new_turn(THREAD);
            continue;
        }
        let inputs: Vec<String> =
            line.split(';').map(|call| json!({"command": call.trim()}).to_string()).collect();
        let calls: Vec<_> = inputs.iter().map(|input| Call { tool: "Bash", input }).collect();
        if let Some(seen) = gate.batch(THREAD, &calls) {
            println!("the same {} times in a row, since {}: asking", seen.times(), seen.since());
            match gate.ask(&mut asker, &seen, like()?) {
                Ok(Some(LoopResult::Approved)) => {}
                Ok(Some(no)) => {
                    println!("turn stopped: {}", no.reason());
                    continue;
                }
                Ok(None) => continue,
                // What a host does without askd is its own choice; this one stops.
                Err(Unavailable::NotRunning(_)) => {
                    println!("turn stopped: no askd daemon runs (askd daemon starts one)");
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
        }
        println!("running {} calls", calls.len());
    }
    Ok(())
}

/// An ask as this host would raise it for any call.
fn like() -> Result<RaiseAsk, serde_json::Error> {
    // The agent process must be named, so that nothing below it can answer.
    let like = json!({
        "key": "", "action": {"tool": ""}, "agent": "example", "session": std::process::id().to_string(),
        "requester": "library", "grace_secs": 60, "instance": {"pid": std::process::id()},
    });
    serde_json::from_str(&like.to_string())
}
