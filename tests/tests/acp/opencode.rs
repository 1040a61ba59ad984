//! opencode keeps its subagents' asks from every client; behind askd they arrive.

use anyhow::Result;
use askd_tests::{
    AcpClient, Model, OpencodeApi, Program, Scripts, Step, World, behind_askd, children, kill, until,
};
use serde_json::{Value, json};

use super::{bash, child, opencode, opencode_env};

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Everything in an ask that a client may show, as opencode itself would have it.
fn is_opencodes_own(ask: &Value, command: &str) {
    assert_eq!(ask.pointer("/params/toolCall/rawInput"), Some(&json!({"command": command})));
    assert_eq!(text(ask, "/params/toolCall/kind"), "execute");
    assert!(text(ask, "/params/toolCall/title").contains(command), "{ask}");
    let expected = json!([
        {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]);
    let ours: Vec<Value> = serde_json::from_value(ask["params"]["options"].clone()).unwrap_or_default();
    assert_eq!(json!(ours), expected);
}

fn two_children() -> Scripts {
    let both = child("the first child", "one").and(child("the second child", "two"));
    Scripts::of("main", [both, Step::say("done")])
        .with("one", [bash("touch one"), Step::say("one is done")])
        .with("two", [bash("touch two"), Step::say("two is done")])
        .with("next", [bash("touch next"), Step::say("done")])
}

#[test]
fn a1_a2_a4_a5_two_children_get_opposite_answers_in_a_client_without_subagents() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model = Model::start(two_children())?;
    let mut client = opencode(&world, &model, &json!({}))?;
    let prompt = client.prompt("play=main")?;

    let (one, two) = (client.ask("touch one")?, client.ask("touch two")?);
    assert_ne!(one["id"], two["id"]);
    for (ask, command, name) in
        [(&one, "touch one", "the first child"), (&two, "touch two", "the second child")]
    {
        assert_eq!(text(ask, "/params/sessionId"), client.session);
        is_opencodes_own(ask, command);
        assert!(text(ask, "/params/toolCall/title").starts_with(&format!("[{name}] ")), "{ask}");
        let mark = &ask["params"]["_meta"]["fx"]["subagent"];
        let id = format!("{}/{}", text(mark, "/sessionId"), text(mark, "/toolCallId"));
        assert_eq!(text(ask, "/params/toolCall/toolCallId"), id);
        // The work is the parent's task call, which the client has seen.
        let work = text(mark, "/workId").to_owned();
        client.update("the task call", |update| {
            text(update, "/sessionId") == client.session && text(update, "/update/toolCallId") == work
        })?;
    }
    client.choose(&two, "reject")?;
    client.choose(&one, "once")?;
    world.wait_made("one")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    assert!(!world.made("two"));
    assert_eq!(client.asks().len(), 2);
    let settled: Vec<_> =
        world.asks()?.into_iter().map(|ask| (ask.command().to_owned(), ask.outcome)).collect();
    for (command, outcome) in settled {
        let outcome = outcome.map(|outcome| (outcome.outcome, outcome.cause));
        let expected = if command == "touch one" { "allowed" } else { "denied" };
        assert_eq!(outcome, Some((expected.to_owned(), "person".to_owned())), "{command}");
    }
    Ok(())
}

#[test]
fn a1_a3_a_client_with_subagents_hears_of_the_child_and_is_asked_on_its_session() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model = Model::start(two_children())?;
    let mut client = opencode(&world, &model, &json!({"subagents": {}}))?;
    let prompt = client.prompt("play=main")?;
    let (one, two) = (client.ask("touch one")?, client.ask("touch two")?);
    for ask in [&one, &two] {
        let session = text(ask, "/params/sessionId").to_owned();
        assert_ne!(session, client.session);
        assert!(ask.pointer("/params/_meta/fx").is_none(), "{ask}");
        let told = client.update("the child announced", |update| {
            text(update, "/update/sessionUpdate") == "subagent_update"
                && text(update, "/update/sessionId") == session
        })?;
        assert_eq!(text(&told, "/sessionId"), client.session);
    }
    is_opencodes_own(&one, "touch one");
    client.choose(&one, "once")?;
    client.choose(&two, "once")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    assert!(world.made("one") && world.made("two"));
    Ok(())
}

#[test]
fn a8_an_answer_at_askd_withdraws_the_dialog_and_the_late_answer_is_swallowed() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [bash("touch mine"), child("the child", "kid"), Step::say("done")])
        .with("kid", [bash("touch childs"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut client = opencode(&world, &model, &json!({}))?;
    let prompt = client.prompt("play=main")?;
    for name in ["mine", "childs"] {
        let command = format!("touch {name}");
        let (dialog, ask) = (client.ask(&command)?, world.ask(&command)?);
        assert_eq!(world.allow(&ask.id)?, 0);
        world.wait_made(name)?;
        client.withdrawn(&dialog)?;
        client.choose(&dialog, "reject")?;
        let ask = world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
        assert_eq!(ask.settled(), Some(("allowed", "person")));
    }
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    Ok(())
}

#[test]
fn a6_a_cancel_ends_a_childs_ask_and_a_late_allow_runs_nothing() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model = Model::start(two_children())?;
    let mut client = opencode(&world, &model, &json!({}))?;
    let prompt = client.prompt("play=main")?;
    let dialogs = [client.ask("touch one")?, client.ask("touch two")?];
    let asks = [world.ask("touch one")?, world.ask("touch two")?];
    client.cancel()?;
    for (dialog, ask) in dialogs.iter().zip(&asks) {
        client.withdrawn(dialog)?;
        client.choose(dialog, "once")?;
        let ask = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
        assert_eq!(ask.settled(), Some(("withdrawn", "cancelled")));
        assert_eq!(world.allow(&ask.id)?, 5);
    }
    client.result(prompt)?;

    let prompt = client.prompt("play=next")?;
    let next = client.ask("touch next")?;
    client.choose(&next, "once")?;
    world.wait_made("next")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    assert!(!world.made("one") && !world.made("two"));
    Ok(())
}

#[test]
fn a15_the_client_goes_and_the_ask_is_answered_within_the_grace() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [child("the child", "kid"), Step::say("done")])
        .with("kid", [bash("touch alone"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut client = opencode(&world, &model, &json!({}))?;
    client.prompt("play=main")?;
    client.ask("touch alone")?;
    let ask = world.ask("touch alone")?;
    client.leave();
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("alone")?;
    client.ended()?;
    Ok(())
}

#[test]
fn a8_c1_a_daemon_that_is_started_again_with_a_dialog_open_loses_nothing() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model = Model::start(two_children())?;
    let mut client = opencode(&world, &model, &json!({}))?;
    let prompt = client.prompt("play=main")?;
    let (one, two) = (client.ask("touch one")?, client.ask("touch two")?);
    let at_askd = world.ask("touch two")?;
    world.kill_daemon()?;
    world.start_daemon()?;
    let at_askd = world.wait(&at_askd.id, "the proxy back", |ask| ask.requester.link == "attached")?;
    assert_eq!(world.open()?.len(), 2);
    client.choose(&one, "once")?;
    world.wait_made("one")?;
    assert_eq!(world.allow(&at_askd.id)?, 0);
    world.wait_made("two")?;
    client.withdrawn(&two)?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    Ok(())
}

#[test]
fn a1_c1_the_agent_is_killed_with_asks_open() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model = Model::start(two_children())?;
    let mut client = opencode(&world, &model, &json!({}))?;
    client.prompt("play=main")?;
    client.ask("touch one")?;
    let asks = [world.ask("touch one")?, world.ask("touch two")?];
    kill(agent_of(&client)?)?;
    assert_eq!(client.ended()?, Some(128 + 9));
    for ask in asks {
        let ask = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
        assert_eq!(ask.outcome.map(|outcome| outcome.outcome).as_deref(), Some("withdrawn"));
        assert_eq!(world.allow(&ask.id)?, 5);
    }
    assert!(!world.made("one") && !world.made("two"));
    Ok(())
}

#[test]
fn a17_askd_behind_askd_asks_once_and_the_answer_arrives() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model = Model::start(two_children())?;
    let askd = world.askd().display().to_string();
    let mut agent: Vec<String> = ["env", "X=1", &askd, "acp", "--"].map(str::to_owned).into();
    agent.extend(Program::Opencode.command()?);
    agent.push("acp".to_owned());
    let command = behind_askd(world.askd(), &[], &agent);
    let mut client = AcpClient::start(&world, &command, opencode_env(&world, &model), &json!({}))?;
    client.open(None)?;
    let prompt = client.prompt("play=next")?;
    let ask = client.ask("touch next")?;
    world.ask("touch next")?;
    client.choose(&ask, "once")?;
    world.wait_made("next")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    assert_eq!(world.asks()?.len(), 1, "{}", world.log()?);
    // And a child's, which opencode keeps to itself.
    let prompt = client.prompt("play=main")?;
    let (one, two) = (client.ask("touch one")?, client.ask("touch two")?);
    client.choose(&one, "once")?;
    client.choose(&two, "reject")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    assert!(world.made("one") && !world.made("two"));
    assert_eq!(world.asks()?.len(), 3, "{}", world.log()?);
    Ok(())
}

/// opencode asks whether to go on when the same call comes a third time.
#[test]
fn t5_t9_skipping_does_not_answer_whether_a_loop_may_go_on() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let glob = || Step::call("glob", json!({"pattern": "*.nothing"}));
    let thrice = glob().and(glob()).and(glob());
    let model = Model::start(Scripts::of("main", [thrice, Step::say("done")]))?;
    assert_eq!(world.run(&["permissions", "skip", "on"])?.code, 0);
    let mut client = opencode(&world, &model, &json!({}))?;
    client.prompt("play=main")?;
    let ask = until("the question about the loop", || {
        Ok(world.asks()?.into_iter().find(|ask| ask.action["tool"] == "doom_loop"))
    })?;
    let dialog = client.ask("doom_loop")?;
    assert_eq!((world.show(&ask.id)?.state.as_str(), world.open()?.len()), ("open", 1), "{ask:?}");
    client.choose(&dialog, "reject")?;
    let ask = world.wait(&ask.id, "the person's answer", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("denied", "person")));
    Ok(())
}

fn agent_of(client: &AcpClient) -> Result<u32> {
    until("the agent's process", || {
        Ok(children(client.pid()).into_iter().find(|(_, line)| line.contains("opencode")).map(|(pid, _)| pid))
    })
}

#[test]
fn c11_a_deny_that_opencodes_own_server_overtook_is_told() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let both = bash("touch denied").and(bash("touch later"));
    let scripts = Scripts::of("main", [child("the child", "kid"), Step::say("done")])
        .with("kid", [both, Step::say("the child is done")]);
    let model = Model::start(scripts)?;
    let server = OpencodeApi::new(&world)?;
    let mut agent = Program::Opencode.command()?;
    agent.push("acp".to_owned());
    agent.extend(server.args());
    let mut env = opencode_env(&world, &model);
    env.push(OpencodeApi::env());
    let mut client = AcpClient::start(&world, &behind_askd(world.askd(), &[], &agent), env, &json!({}))?;
    client.open(None)?;
    let prompt = client.prompt("play=main")?;
    let (denied, later) = (world.ask("touch denied")?, world.ask("touch later")?);
    // A no takes every open ask of its session along, so it waits for the other one; the agent goes on meanwhile.
    assert_eq!(world.deny(&denied.id, "not this one")?, 0);
    server.reply(&server.ask("touch denied")?, "once")?;
    world.wait_made("denied")?;
    let denied = world.wait(&denied.id, "the denial overtaken", |ask| ask.delivery == "overtaken")?;
    assert_eq!(denied.settled(), Some(("denied", "person")), "what the person said stays written");
    assert!(world.log()?.contains("overtaken: the agent had already gone on"), "{}", world.log()?);

    assert_eq!(world.allow(&later.id)?, 0);
    world.wait_made("later")?;
    world.wait(&later.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    Ok(())
}
