//! What happens in the demo, in order. First the simple ask; then the others, one thing at a time.

use std::time::Duration;

use askd_wire::Attendance;

use crate::failure::Failure;

use super::actions::{self, FIRST, REPORT, SECOND};
use super::agent::{Agent, Asked, Flow, Heard, Thread};

/// Seconds until the timed answers: long enough to read, short enough to watch; so many times later with `--slow`.
const SLOW: u64 = 3;
const TIMED: u64 = 12;
const BURST: u64 = 20;
const LOOP: u64 = 15;
/// Between two things, so that what was said can be read.
const REST: Duration = Duration::from_millis(1500);
const LAST_REST: Duration = Duration::from_secs(4);

const MAIN: Thread = Thread { subagent: None, job: None, attendance: Attendance::Foreground };
const EDITOR: Thread = Thread { subagent: Some(("editor", "writer")), ..MAIN };
const BUILDER: Thread = Thread { subagent: Some(("builder", "general-purpose")), ..MAIN };
const JOB: Thread = Thread { subagent: None, job: Some("nightly"), attendance: Attendance::Background };
const LOOPING: Thread = Thread { attendance: Attendance::Background, ..BUILDER };

/// Two files, one ask after the other.
pub(super) fn short(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    for file in [FIRST, SECOND] {
        let call = actions::write(&agent.part.dir, file);
        agent.say(&format!("I would like to {}.", call.words))?;
        if agent.ask(MAIN, call)? == Flow::End {
            return Ok(Flow::End);
        }
    }
    Ok(Flow::On)
}

/// All of it.
pub(super) fn all(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    type Chapter = fn(&mut Agent<'_>) -> Result<Flow, Failure>;
    let chapters: [Chapter; 6] = [simple, subagents, hostile, timed, burst, repeats];
    for (at, chapter) in chapters.into_iter().enumerate() {
        if at > 0 && agent.rest(REST)? == Flow::End {
            return Ok(Flow::End);
        }
        if chapter(agent)? == Flow::End {
            return Ok(Flow::End);
        }
    }
    Ok(Flow::On)
}

/// So that the last words can be read before the screen goes.
pub(super) fn last_rest(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    agent.rest(LAST_REST)
}

fn simple(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    let call = actions::write(&agent.part.dir, FIRST);
    agent.say(&format!("1 of 6: I would like to {}. Nothing happens before you answer.", call.words))?;
    agent.ask(MAIN, call)
}

fn subagents(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    agent.say("2 of 6: two subagents work for me now: an edit, and a long command. Read it to its end.")?;
    agent.start(&[EDITOR, BUILDER]);
    let asked = vec![
        Asked::of(EDITOR, actions::edit(&agent.part.dir)),
        Asked::of(BUILDER, actions::long_command()).after(REST),
    ];
    agent.ask_all(asked, |_| ())
}

fn hostile(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    agent.say("3 of 6: I read a web page, and it made me ask for this. What it hides is marked.")?;
    agent.ask(MAIN, actions::hostile())
}

fn secs(agent: &Agent<'_>, secs: u64) -> u64 {
    if agent.part.slow { secs * SLOW } else { secs }
}

fn timed(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    agent.say(&format!(
        "4 of 6: a background job asks. Nobody is at it, so it gets a timed answer in {}s: watch, or answer.",
        secs(agent, TIMED)
    ))?;
    let (call, secs) = (actions::write(&agent.part.dir, REPORT), secs(agent, TIMED));
    agent.ask_all(vec![Asked::of(JOB, call).within(secs)], |_| ())
}

fn burst(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    let cap = agent.part.queue_cap;
    // A few more than the queue takes, unless it takes very many.
    let count = if (1..=12).contains(&cap) { cap + 3 } else { 8 };
    agent.say(&format!(
        "5 of 6: the job asks {count} times at once; the queue takes {}. a allows and d denies all that wait.",
        if cap == 0 { "any number".to_owned() } else { (cap + 1).to_string() }
    ))?;
    let secs = secs(agent, BURST);
    let asked = (1..=count).map(|number| {
        let gap = Duration::from_millis(u64::from(number) * 100);
        Asked::of(JOB, actions::picture(number)).within(secs).after(gap).quietly()
    });
    let mut heard = Vec::new();
    let flow = agent.ask_all(asked.collect(), |one| heard.push(one.clone()))?;
    if flow == Flow::On {
        agent.say(&tally(&heard))?;
    }
    Ok(flow)
}

/// How the asks of a burst were settled.
fn tally(heard: &[Heard]) -> String {
    let count = |wanted: &dyn Fn(&Heard) -> bool| heard.iter().filter(|heard| wanted(heard)).count();
    let allowed = count(&|heard| heard.allowed);
    let mut parts = vec![format!("{allowed} of {} were allowed", heard.len())];
    for (cause, words) in [
        ("overflow", "the queue was full for"),
        ("timed", "the time ran out for"),
        ("person", "a person answered"),
        ("skip", "permissions are skipped for"),
    ] {
        let settled = count(&|heard| heard.cause == cause);
        if settled > 0 {
            parts.push(format!("{words} {settled}"));
        }
    }
    format!("{}.", parts.join("; "))
}

fn repeats(agent: &mut Agent<'_>) -> Result<Flow, Failure> {
    agent.say("6 of 6: a subagent makes the same call again and again; askd notices the third.")?;
    let call = actions::again();
    let Some(seen) = agent.repeat(BUILDER, &call)? else {
        agent.say("It was not noticed: this daemon does not watch for it.")?;
        return Ok(Flow::On);
    };
    let asked = Asked::of(LOOPING, actions::doom_loop(&call, &seen)).within(secs(agent, LOOP)).safety();
    agent.ask_all(vec![asked], |_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_a_burst_is_told_by_its_causes() {
        let heard = |cause: &str, allowed| Heard { cause: cause.to_owned(), allowed };
        let all = [heard("person", true), heard("overflow", false), heard("overflow", false)];
        assert_eq!(tally(&all), "1 of 3 were allowed; the queue was full for 2; a person answered 1.");
    }
}
