//! Some hundreds of calls of the real agent, answered from both sides, with a host that fails, repeats itself and goes,
//! a daemon that is killed, a turn that is stopped and an agent that is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use askd_tests::{Headless, Host, Model, Scripts, Step, Version, World, until};
use serde_json::{Value, json};

use crate::behind;

const CHILDREN: usize = 3;
const CALLS_OF_A_CHILD: usize = 17;
const HOST_NO: &str = "the host says no";
const PERSON_NO: &str = "the person says no";

/// What goes wrong in one life of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    HostCloses,
    DaemonIsKilled,
    TurnIsStopped,
    AgentIsKilled,
}

/// Numbers that a seed determines.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What was said about each call, by its command.
#[derive(Default)]
struct Said {
    allowed: BTreeSet<String>,
    denied: BTreeSet<String>,
    /// A person's answers that counted.
    persons: BTreeMap<String, bool>,
}

fn child(life: usize, number: usize) -> String {
    format!("life{life}child{number}")
}

fn command(script: &str, step: usize) -> String {
    format!("echo {script}-{step}. >> ran")
}

fn scripts(lives: usize) -> Scripts {
    let mut scripts = Scripts::default();
    for life in 0..lives {
        let start = |number| Step::agent(&format!("child {number}"), &child(life, number), false);
        let together = (1..CHILDREN).fold(start(0), |step, number| step.and(start(number)));
        scripts = scripts.with(&format!("life{life}"), [together, Step::say("done")]);
        for number in 0..CHILDREN {
            let name = child(life, number);
            let steps = (0..CALLS_OF_A_CHILD).map(|step| Step::bash(&command(&name, step)));
            scripts = scripts.with(&name, steps.chain([Step::say("done")]));
        }
    }
    scripts
}

/// The host and the people of one life.
struct Desk<'a> {
    world: &'a mut World,
    said: &'a mut Said,
    dice: &'a mut Dice,
    /// Requests that the host has looked at.
    seen: usize,
    /// Responses that it may send once more.
    sent: Vec<Value>,
    host_is_there: bool,
}

impl Desk<'_> {
    /// The host deals with everything new.
    fn host(&mut self, agent: &mut Headless) -> Result<()> {
        let asks = |frame: &&Value| frame["request"]["subtype"] == "can_use_tool";
        let new: Vec<Value> = agent.frames().iter().filter(asks).skip(self.seen).cloned().collect();
        for frame in new {
            self.seen += 1;
            let (id, input) = (&frame["request_id"], &frame["request"]["input"]);
            let command = input["command"].as_str().unwrap_or_default().to_owned();
            let respond = |response: Value| json!({"type": "control_response", "response": response});
            let success = |response: Value| {
                respond(json!({"subtype": "success", "request_id": id, "response": response}))
            };
            let line = match self.dice.below(10) {
                0..3 => {
                    self.said.allowed.insert(command);
                    success(json!({"behavior": "allow", "updatedInput": input}))
                }
                3..5 => {
                    self.said.denied.insert(command);
                    success(json!({"behavior": "deny", "message": HOST_NO}))
                }
                5 => respond(json!({"subtype": "error", "request_id": id, "error": "no window"})),
                // Left to people.
                _ => continue,
            };
            agent.send(&line)?;
            self.sent.push(line);
            if self.dice.below(4) == 0 {
                let again = self.sent[usize::try_from(self.dice.below(self.sent.len() as u64))?].clone();
                agent.send(&again)?;
            }
        }
        Ok(())
    }

    /// People answer everything that they see.
    fn people(&mut self) -> Result<()> {
        for ask in self.world.open()? {
            // The host may be about to answer this one.
            if self.host_is_there && self.dice.below(3) == 0 {
                continue;
            }
            let command = ask.command().to_owned();
            let allow = self.dice.below(3) > 0;
            let told =
                if allow { self.world.allow(&ask.id)? } else { self.world.deny(&ask.id, PERSON_NO)? };
            ensure!([0, 5].contains(&told), "an answer gets {told}");
            if told == 0 {
                self.said.persons.insert(command.clone(), allow);
                let by = if allow { &mut self.said.allowed } else { &mut self.said.denied };
                by.insert(command);
            }
        }
        Ok(())
    }
}

#[test]
fn c10_three_hundred_calls_of_the_real_agent_with_every_kind_of_trouble() -> Result<()> {
    let lives = [
        Trouble::Nothing,
        Trouble::HostCloses,
        Trouble::DaemonIsKilled,
        Trouble::TurnIsStopped,
        Trouble::HostCloses,
        Trouble::AgentIsKilled,
        Trouble::DaemonIsKilled,
    ];
    let mut world = World::with_askd()?;
    let model = Model::start(scripts(lives.len()))?;
    let (mut said, mut dice) = (Said::default(), Dice(7));
    for (life, trouble) in lives.into_iter().enumerate() {
        live(&mut world, &model, life, trouble, &mut said, &mut dice)
            .with_context(|| format!("life {life}: {trouble:?}"))?;
    }

    let ran = fs::read_to_string(world.project().join("ran"))?;
    let mut results = BTreeMap::new();
    for result in model.results().into_iter().filter(|result| result.script.contains("child")) {
        results.insert((result.script.clone(), result.step), result);
    }
    assert!(results.len() >= 300, "only {} calls have a result", results.len());
    for (life, trouble) in lives.into_iter().enumerate() {
        let ends_early = matches!(trouble, Trouble::TurnIsStopped | Trouble::AgentIsKilled);
        for (number, step) in (0..CHILDREN).flat_map(|n| (0..CALLS_OF_A_CHILD).map(move |s| (n, s))) {
            let script = child(life, number);
            let command = command(&script, step);
            let times = ran.matches(&format!("{script}-{step}.\n")).count();
            assert!(times <= 1, "{command} ran {times} times");
            assert!(times == 0 || said.allowed.contains(&command), "nobody allowed {command}, and it ran");
            let Some(result) = results.get(&(script, step)) else {
                assert!(ends_early, "{command} has no result");
                continue;
            };
            if !result.is_error {
                assert_eq!(times, 1, "{command}");
            } else if !ends_early {
                let words = result.text == HOST_NO || result.text == PERSON_NO;
                assert!(words && said.denied.contains(&command), "nobody denied {command}: {}", result.text);
                assert_eq!(times, 0, "{command} was denied and ran");
            }
            // A person who was told that the answer counts can rely on it.
            if let Some(allowed) = said.persons.get(&command).filter(|_| !ends_early) {
                assert_eq!(!result.is_error, *allowed, "{command}: the person's answer is lost");
            }
        }
    }
    assert!(world.open()?.is_empty());
    assert_eq!(world.sessions()?.iter().map(|session| session.waiting).sum::<u32>(), 0);
    Ok(())
}

fn live(
    world: &mut World,
    model: &Model,
    life: usize,
    trouble: Trouble,
    said: &mut Said,
    dice: &mut Dice,
) -> Result<()> {
    let mut agent = behind(world, Version::Newest, model, &[], &[], Host::Stdio)?;
    agent.say(&format!("play=life{life}"))?;
    let mut desk = Desk { world, said, dice, seen: 0, sent: Vec::new(), host_is_there: true };
    let mut trouble_comes = (trouble != Trouble::Nothing).then_some(20);
    let of_this_life = format!("life{life}child");
    until_over(|| {
        if desk.host_is_there {
            desk.host(&mut agent)?;
        }
        desk.people()?;
        let done = model.results().iter().filter(|result| result.script.starts_with(&of_this_life)).count();
        if trouble_comes.is_some_and(|at| done >= at) && !desk.world.open()?.is_empty() {
            trouble_comes = None;
            match trouble {
                Trouble::Nothing => {}
                Trouble::HostCloses => {
                    desk.host_is_there = false;
                    agent.close();
                }
                Trouble::DaemonIsKilled => {
                    desk.world.kill_daemon()?;
                    desk.world.start_daemon()?;
                }
                Trouble::TurnIsStopped => agent.interrupt()?,
                Trouble::AgentIsKilled => {
                    agent.kill()?;
                    return Ok(true);
                }
            }
        }
        Ok(agent.frames().iter().any(|frame| frame["type"] == "result"))
    })?;
    if trouble != Trouble::AgentIsKilled {
        agent.finish()?;
    }
    // What is still open belongs to nobody any more, and goes by itself.
    until("the end of the last asks", || Ok(world.open()?.is_empty().then_some(())))
}

/// Goes on until it is over. Each step is a process or more, so this is no busy wait.
fn until_over(mut step: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..20_000 {
        if step()? {
            return Ok(());
        }
    }
    anyhow::bail!("it does not come to an end")
}
