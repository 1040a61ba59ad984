//! What children forward through the directory, served by the daemon (`askd setup pi`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use askd_tests::{Model, Program, Scripts, Step, World, kill, until};
use serde_json::{Value, json};

use super::host::RpcHost;
use super::{bash, bash_asks, env, files, forwarding_dir, install, pi};

/// A world whose daemon serves pi's directory.
fn served(model: &Model) -> Result<World> {
    let mut world = World::bare()?;
    install(&world, model, &bash_asks())?;
    world.start_daemon()?;
    world.must(&["setup", "pi"])?;
    Ok(world)
}

/// A headless pi, as a spawner starts it in the name of `parent`.
pub(super) fn child(world: &World, parent: &str, script: &str) -> Result<Child> {
    let words = pi(world, &["--no-session", "-p", &format!("play={script}")])?;
    let (program, args) = words.split_first().context("no command")?;
    let said = File::create(world.file(&format!("said-{script}")))?;
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env(world)).current_dir(world.project());
    command.env("PI_SUBAGENT_PARENT_SESSION", parent).env("PI_IS_SUBAGENT", "1");
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said).process_group(0);
    Ok(command.spawn()?)
}

/// Requests and responses that are there.
fn json_files(world: &World) -> BTreeSet<String> {
    let all = files(&forwarding_dir(world));
    all.into_iter().filter(|name| name.starts_with("sessions/") && name.ends_with(".json")).collect()
}

pub(super) fn wait_for_no_json(world: &World) -> Result<()> {
    until("the last request and response gone", || Ok(json_files(world).is_empty().then_some(())))
}

/// Answers every ask whose command has a number, after 0 to 900 ms: each third is denied with a reason of its own.
fn answer_numbered(world: &World, count: usize) -> Result<()> {
    let mut due: BTreeMap<String, (u64, Instant)> = BTreeMap::new();
    let mut answered = BTreeSet::new();
    until(&format!("{count} asks"), || {
        for ask in world.open()? {
            let number = number_of(ask.command()).context("a numbered command")?;
            let delay = Duration::from_millis(number * 389 % 900);
            due.entry(ask.id.clone()).or_insert_with(|| (number, Instant::now() + delay));
        }
        for (id, (number, at)) in &due {
            if Instant::now() >= *at && answered.insert(id.clone()) {
                let code = if denied(*number) {
                    world.deny(id, &format!("reason {number}"))?
                } else {
                    world.allow(id)?
                };
                assert_eq!(code, 0, "an answer was in vain");
            }
        }
        Ok((answered.len() == count).then_some(()))
    })
}

fn number_of(command: &str) -> Option<u64> {
    let digits: String = command.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn denied(number: u64) -> bool {
    number.is_multiple_of(3)
}

/// Old children, `count` of them in one process, from number `first` on.
fn old_children(world: &World, parent: &str, first: usize, count: usize) -> Result<(Child, PathBuf)> {
    let node = Program::Pi.command()?.swap_remove(0);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pi/old_children.mjs");
    let said = world.file(&format!("children-{first}"));
    let mut command = Command::new(node);
    command.arg(script).arg(forwarding_dir(world)).arg(parent);
    command.args([first.to_string(), count.to_string()]);
    command.env_clear().envs(world.env()).stdin(Stdio::null()).stdout(File::create(&said)?);
    Ok((command.spawn()?, said))
}

fn told(said: &Path) -> Result<Vec<Value>> {
    fs::read_to_string(said)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Each child has exactly the answer that was given to it.
fn check_own_answers(all: &[Value]) -> Result<()> {
    for child in all {
        let number = child["number"].as_u64().context("a number")?;
        assert!(child["fault"].is_null(), "{child}");
        if denied(number) {
            assert_eq!(
                (&child["approved"], &child["state"]),
                (&json!(false), &json!("denied_with_reason")),
                "{child}"
            );
            assert_eq!(child["reason"], format!("reason {number}"), "{child}");
        } else {
            assert_eq!((&child["approved"], &child["state"]), (&json!(true), &json!("approved")), "{child}");
        }
    }
    Ok(())
}

#[test]
fn f2_six_real_children_at_once_each_get_their_own_answer() -> Result<()> {
    let mut scripts = Scripts::of("c1", [bash("touch step1"), Step::say("done")]);
    for number in 2..=6 {
        scripts =
            scripts.with(&format!("c{number}"), [bash(&format!("touch step{number}")), Step::say("done")]);
    }
    let model = Model::start(scripts)?;
    let world = served(&model)?;
    let mut children = Vec::new();
    for number in 1..=6 {
        children.push(child(&world, "the parent", &format!("c{number}"))?);
    }
    answer_numbered(&world, 6)?;
    for running in &mut children {
        let status = until("the end of a child", || Ok(running.try_wait()?))?;
        assert!(status.success());
    }
    for number in 1..=6 {
        let result = model.result(&format!("c{number}"), 0)?;
        assert_eq!(world.made(&format!("step{number}")), !denied(number), "{result:?}");
        if denied(number) {
            assert!(result.text.contains(&format!("reason {number}")), "{result:?}");
        }
    }
    let asks = world.asks()?;
    assert_eq!(asks.len(), 6, "each was shown once");
    assert!(asks.iter().all(|ask| ask.lineage.root == "the parent"), "{asks:?}");
    wait_for_no_json(&world)
}

#[test]
fn f2_f3_fifty_old_children_that_clean_up_under_each_other_lose_no_answer() -> Result<()> {
    let model = Model::start(Scripts::of("main", [Step::say("unused")]))?;
    let world = served(&model)?;
    let mut children = Vec::new();
    for process in 0..5 {
        children.push(old_children(&world, "parent-1", 1 + process * 10, 10)?);
    }
    answer_numbered(&world, 50)?;
    let mut all = Vec::new();
    for (running, said) in &mut children {
        until("the end of the children", || Ok(running.try_wait()?))?;
        all.extend(told(said)?);
    }
    assert_eq!(all.len(), 50);
    check_own_answers(&all)?;
    assert_eq!(world.asks()?.len(), 50, "each was shown once");
    wait_for_no_json(&world)
}

#[test]
fn f6_directories_that_are_removed_between_prompt_and_answer_are_there_for_the_answer() -> Result<()> {
    let model = Model::start(Scripts::of("main", [Step::say("unused")]))?;
    let world = served(&model)?;
    let session = forwarding_dir(&world).join("sessions/parent-1");
    for (number, removed) in
        [(1, session.join("responses")), (2, session.clone()), (3, session.join("responses"))]
    {
        let (mut running, said) = old_children(&world, "parent-1", number, 1)?;
        let ask = world.ask(&format!("step {number}"))?;
        // askd makes it again at once, in between even.
        until("the directory removed", || Ok(fs::remove_dir_all(&removed).ok()))?;
        if denied(number as u64) {
            assert_eq!(world.deny(&ask.id, &format!("reason {number}"))?, 0);
        } else {
            assert_eq!(world.allow(&ask.id)?, 0);
        }
        until("the end of the child", || Ok(running.try_wait()?))?;
        check_own_answers(&told(&said)?)?;
    }
    assert_eq!(world.asks()?.len(), 3, "nobody was asked twice");
    Ok(())
}

#[test]
fn f10_a_child_that_is_killed_is_withdrawn_and_ghosts_are_not_shown() -> Result<()> {
    let scripts = Scripts::of("main", [bash("touch lost"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut world = served(&model)?;
    let mut running = child(&world, "parent-1", "main")?;
    let ask = world.ask("touch lost")?;
    kill(running.id())?;
    running.wait()?;
    let ask = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("withdrawn", "requester_gone")));
    assert_eq!(world.allow(&ask.id)?, 5);
    wait_for_no_json(&world)?;

    // One that died while nobody served: its request is there when askd starts, beside a live one.
    world.kill_daemon()?;
    let mut ghost = child(&world, "parent-2", "main")?;
    let requests = forwarding_dir(&world).join("sessions/parent-2/requests");
    let left = until("the ghost's request", || {
        let names = fs::read_dir(&requests).into_iter().flatten().flatten().map(|entry| entry.path());
        Ok(names.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")))
    })?;
    kill(ghost.id())?;
    ghost.wait()?;
    // As it is when somebody comes back from lunch.
    let a_while = Duration::from_secs(300);
    let mut request: Value = serde_json::from_slice(&fs::read(&left)?)?;
    request["createdAt"] = json!(request["createdAt"].as_u64().context("a time")? - 300_000);
    fs::write(&left, request.to_string())?;
    File::options().write(true).open(&left)?.set_modified(SystemTime::now() - a_while)?;
    let (mut live, _) = old_children(&world, "parent-2", 7, 1)?;
    world.start_daemon()?;
    let shown = world.ask("step 7")?;
    until("the ghost's request removed", || Ok((json_files(&world).len() == 1).then_some(())))?;
    let open: Vec<String> = world.open()?.into_iter().map(|ask| ask.id).collect();
    assert_eq!(open, std::slice::from_ref(&shown.id));
    assert_eq!(world.allow(&shown.id)?, 0);
    until("the end of the child", || Ok(live.try_wait()?))?;
    assert!(!world.made("lost"));
    Ok(())
}

#[test]
fn f14_of_two_askd_on_one_directory_one_asks() -> Result<()> {
    let model = Model::start(Scripts::of("main", [Step::say("unused")]))?;
    let world = served(&model)?;
    let mut other = World::bare()?;
    fs::create_dir_all(other.askd_dir())?;
    let dir = forwarding_dir(&world);
    fs::write(
        other.askd_dir().join("config.toml"),
        format!("[spool]\ndirs = [{:?}]\n", dir.display().to_string()),
    )?;
    other.start_daemon()?;
    let (mut running, said) = old_children(&world, "parent-1", 1, 12)?;
    let both = || -> Result<usize> { Ok(world.asks()?.len() + other.asks()?.len()) };
    until("all asks", || Ok((both()? >= 12).then_some(())))?;
    let server = if world.asks()?.is_empty() { &other } else { &world };
    answer_numbered(server, 12)?;
    until("the end of the children", || Ok(running.try_wait()?))?;
    let all = told(&said)?;
    assert_eq!(all.len(), 12);
    check_own_answers(&all)?;
    assert_eq!(both()?, 12, "no ask was shown twice");
    Ok(())
}

#[test]
fn f14_beside_a_live_pi_parent_the_first_response_stands() -> Result<()> {
    let scripts = Scripts::of("one", [bash("touch one"), Step::say("done")])
        .with("two", [bash("touch two"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let world = served(&model)?;
    let mut parent = RpcHost::start_alone(&world, "parent-9")?;

    // askd is first; pi's own dialog stays open, and what is said there later changes nothing.
    let mut running = child(&world, "parent-9", "one")?;
    let ask = world.ask("touch one")?;
    let dialog = parent.dialog("touch one")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("one")?;
    until("the end of the child", || Ok(running.try_wait()?))?;
    world.wait(&ask.id, "the answer delivered", |ask| ask.delivery == "confirmed")?;
    parent.answer(&dialog, "No")?;

    // The parent is first.
    let mut running = child(&world, "parent-9", "two")?;
    let ask = world.ask("touch two")?;
    let dialog = parent.dialog("touch two")?;
    parent.answer(&dialog, "Yes")?;
    world.wait_made("two")?;
    let ask = world.wait(&ask.id, "the parent's answer learned", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("allowed", "agent")));
    assert_eq!(world.deny(&ask.id, "too late")?, 5);
    until("the end of the child", || Ok(running.try_wait()?))?;
    assert_eq!(world.asks()?.len(), 2);
    let first = world.asks()?.into_iter().find(|ask| ask.command() == "touch one");
    assert_eq!(first.as_ref().and_then(askd_tests::Ask::settled), Some(("allowed", "person")));
    Ok(())
}

#[test]
fn s6_f13_hostile_requests_touch_nothing_outside_their_place() -> Result<()> {
    let model = Model::start(Scripts::of("main", [Step::say("unused")]))?;
    let world = served(&model)?;
    let dir = forwarding_dir(&world);
    let before = files(&world.home());
    let requests = dir.join("sessions/parent-1/requests");
    fs::create_dir_all(&requests)?;
    let up = "../../../../../../escape";
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    let honest = json!({
        "id": "honest", "createdAt": now, "requesterSessionId": "child", "targetSessionId": "parent-1",
        "requesterAgentName": "worker", "message": "may it?", "surface": "bash", "value": "step",
    });
    let put =
        |stem: &str, request: &Value| fs::write(requests.join(format!("{stem}.json")), request.to_string());
    for field in
        ["id", "requesterSessionId", "targetSessionId", "requesterAgentName", "message", "surface", "value"]
    {
        let mut request = honest.clone();
        request["id"] = json!(format!("bad-{field}"));
        request[field] = json!(up);
        put(&format!("bad-{field}"), &request)?;
    }
    std::os::unix::fs::symlink("/etc/hostname", requests.join("link.json"))?;
    let mut request = honest.clone();
    request["value"] = json!("the trustworthy one");
    put("honest", &request)?;
    let ask = world.ask("the trustworthy one")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    // Whatever can be answered is; the rest is told as unavailable.
    until("every ask over", || {
        for ask in world.open()? {
            world.run(&["deny", &ask.id])?;
        }
        let answered = fs::read_dir(dir.join("sessions/parent-1/responses")).into_iter().flatten().count();
        Ok((world.open()?.is_empty() && answered >= 8).then_some(()))
    })?;
    let responses = dir.join("sessions/parent-1/responses");
    let mut approved = Vec::new();
    for entry in fs::read_dir(responses)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            let response: Value = serde_json::from_slice(&fs::read(entry.path())?)?;
            if response["approved"] == true {
                approved.push(name);
            }
        }
    }
    assert_eq!(approved, ["honest.json"]);
    let after = files(&world.home());
    let new: Vec<&String> =
        after.difference(&before).filter(|name| !name.contains("permission-forwarding")).collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(!files(world.file("").as_path()).iter().any(|name| name.contains("escape")), "{after:?}");
    Ok(())
}
