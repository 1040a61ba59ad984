//! Agents that forward their subagents' asks, each in its own way, and two for the ask of the main session.

use std::fs;

use anyhow::{Context, Result};
use askd_tests::{AcpClient, Ask, Model, Program, Scripts, Step, World, behind_askd, until};
use serde_json::{Value, json};

/// An agent behind askd, with a session.
fn start(
    world: &World,
    agent: Program,
    args: &[&str],
    env: Vec<(String, String)>,
    mode: Option<&str>,
) -> Result<AcpClient> {
    let mut command = agent.command()?;
    command.extend(args.iter().map(|arg| (*arg).to_owned()));
    let command = behind_askd(world.askd(), &[], &command);
    let mut client = AcpClient::start(world, &command, env, &json!({}))?;
    client.open(mode)?;
    Ok(client)
}

fn claude_env(world: &World, model: &Model) -> Vec<(String, String)> {
    let mut env = world.agent_env(model);
    env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
    env
}

/// The option of an ask with this kind.
fn option(ask: &Value, kind: &str) -> Result<String> {
    let options = ask["params"]["options"].as_array().context("an ask has options")?;
    let found = options.iter().find(|option| option["kind"] == kind);
    Ok(found
        .and_then(|option| option["optionId"].as_str())
        .with_context(|| format!("no {kind}: {ask}"))?
        .to_owned())
}

fn choose(client: &mut AcpClient, ask: &Value, kind: &str) -> Result<()> {
    let option = option(ask, kind)?;
    client.choose(ask, &option)
}

/// The call of this dialog was refused: the agent does not say that it ran, and askd does not take it for overtaken.
fn was_refused(world: &World, client: &AcpClient, dialog: &Value) -> Result<()> {
    let call = &dialog["params"]["toolCall"]["toolCallId"];
    let updates = client.notifications("session/update");
    let told: Vec<&str> = updates
        .iter()
        .map(|update| &update["params"]["update"])
        .filter(|update| update["toolCallId"] == *call)
        .filter_map(|update| update["status"].as_str())
        .collect();
    assert!(!told.contains(&"completed"), "{told:?}");
    let asks = world.asks()?;
    let ask =
        asks.iter().find(|ask| ask.lineage.tool_call.as_deref() == call.as_str()).context("askd knows it")?;
    let ask = world.wait(&ask.id, "the denial delivered", |ask| match told.contains(&"failed") {
        true => ask.delivery == "confirmed",
        false => ask.delivery == "handed",
    })?;
    assert_eq!(ask.settled(), Some(("denied", "person")));
    Ok(())
}

#[test]
fn a2_a17_claude_with_hooks_and_proxy_asks_once_and_a_childs_ask_is_marked() -> Result<()> {
    let world = World::with_askd()?;
    let scripts = Scripts::of(
        "main",
        [Step::bash("touch mine"), Step::agent("the child", "kid", false), Step::say("done")],
    )
    .with("kid", [Step::bash("touch childs"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let env = claude_env(&world, &model);
    let mut client = start(&world, Program::ClaudeAcp, &[], env, Some("default"))?;
    let prompt = client.prompt("play=main")?;

    let mine = client.ask("touch mine")?;
    let ask = world.ask("touch mine")?;
    assert_eq!(mine.pointer("/params/_meta/fx"), None);
    choose(&mut client, &mine, "allow_once")?;
    world.wait_made("mine")?;
    let ask = world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(ask.settled(), Some(("allowed", "person")));

    let childs = client.ask("touch childs")?;
    let mark = &childs["params"]["_meta"]["fx"]["subagent"];
    assert!(mark["workId"].as_str().is_some_and(|work| work.starts_with("toolu_")), "{childs}");
    assert_eq!(childs["params"]["sessionId"], client.session.as_str());
    let ask = world.ask("touch childs")?;
    let subagent = ask.lineage.subagent.context("the ask of a child names it")?;
    assert_eq!(subagent.name.as_deref(), Some("the child"));
    // Answered elsewhere.
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("childs")?;
    client.withdrawn(&childs)?;
    choose(&mut client, &childs, "reject_once")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    assert_eq!(world.asks()?.len(), 2, "hooks and proxy together ask once");
    Ok(())
}

#[test]
fn a5_a6_two_children_of_claude_one_allowed_and_one_cancelled() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let both = Step::agent("the first", "one", false).and(Step::agent("the second", "two", false));
    let scripts = Scripts::of("main", [both, Step::say("done")])
        .with("one", [Step::bash("touch one"), Step::say("done")])
        .with("two", [Step::bash("touch two"), Step::say("done")])
        .with("next", [Step::bash("touch next"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let env = claude_env(&world, &model);
    let mut client = start(&world, Program::ClaudeAcp, &[], env, Some("default"))?;
    let prompt = client.prompt("play=main")?;
    let (one, two) = (client.ask("touch one")?, client.ask("touch two")?);
    let at_askd = world.ask("touch two")?;
    choose(&mut client, &one, "allow_once")?;
    world.wait_made("one")?;
    client.cancel()?;
    let at_askd = world.wait(&at_askd.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(at_askd.settled(), Some(("withdrawn", "cancelled")));
    choose(&mut client, &two, "allow_once")?;
    assert_eq!(world.allow(&at_askd.id)?, 5);
    assert_eq!(client.stop_reason(prompt)?, "cancelled");

    let prompt = client.prompt("play=next")?;
    let next = client.ask("touch next")?;
    choose(&mut client, &next, "reject_once")?;
    client.result(prompt)?;
    was_refused(&world, &client, &next)?;
    assert!(!world.made("two") && !world.made("next"));
    Ok(())
}

/// Codex with the scripted model as its provider.
fn codex_env(world: &World, model: &Model) -> Result<Vec<(String, String)>> {
    let home = world.file("codex");
    fs::create_dir_all(&home)?;
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"on-request\"\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
         requires_openai_auth = false\n[features]\nmulti_agent = true\n",
        model.url()
    );
    fs::write(home.join("config.toml"), config)?;
    let mut env = world.env();
    env.push(("CODEX_HOME".to_owned(), home.display().to_string()));
    env.push(("TMPDIR".to_owned(), world.file("tmp").display().to_string()));
    Ok(env)
}

#[test]
fn a4_a8_codex_is_asked_in_its_own_words_and_answered_elsewhere() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let command = |command: &str| {
        Step::call(
            "exec_command",
            json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "a test"}),
        )
    };
    let steps = [command("touch one"), command("touch two"), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let env = codex_env(&world, &model)?;
    let mut client = start(&world, Program::CodexAcp, &[], env, Some("read-only"))?;
    let prompt = client.prompt("play=main")?;

    let dialog = client.ask("touch one")?;
    let ask = first_open(&world)?;
    let theirs: Vec<&str> = dialog["params"]["options"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|option| option["optionId"].as_str())
        .collect();
    let ours: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(ours, theirs);
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("one")?;
    client.withdrawn(&dialog)?;

    let dialog = client.ask("touch two")?;
    choose(&mut client, &dialog, "reject_once")?;
    client.result(prompt)?;
    was_refused(&world, &client, &dialog)?;
    assert!(!world.made("two"));
    Ok(())
}

#[test]
fn a8_qwen_is_answered_at_askd_and_in_the_client() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let shell = |command: &str| {
        Step::call(
            "run_shell_command",
            json!({"command": command, "description": "test step", "is_background": false}),
        )
    };
    let steps = [shell("touch one"), shell("touch two"), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let mut env = world.env();
    for (name, value) in [
        ("OPENAI_API_KEY", "only-the-scripted-model-sees-this".to_owned()),
        ("OPENAI_BASE_URL", format!("{}/v1", model.url())),
        ("OPENAI_MODEL", "scripted".to_owned()),
        ("QWEN_TELEMETRY_ENABLED", "false".to_owned()),
    ] {
        env.push((name.to_owned(), value));
    }
    let mut client = start(&world, Program::Qwen, &["--acp", "--auth-type", "openai"], env, Some("default"))?;
    two_main_asks(&world, &mut client)
}

#[test]
fn a8_gemini_is_answered_at_askd_and_in_the_client() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let shell = |command: &str| {
        Step::call("run_shell_command", json!({"command": command, "description": "test step"}))
    };
    let steps = [shell("touch one"), shell("touch two"), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"disableAutoUpdate": true},
    });
    fs::create_dir_all(world.home().join(".gemini"))?;
    fs::write(world.home().join(".gemini/settings.json"), settings.to_string())?;
    let mut env = world.env();
    for (name, value) in [
        ("GEMINI_API_KEY", "only-the-scripted-model-sees-this".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", model.url()),
        ("GEMINI_MODEL", "gemini-2.5-pro".to_owned()),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
    ] {
        env.push((name.to_owned(), value));
    }
    let mut client = start(&world, Program::Gemini, &["--acp"], env, None)?;
    two_main_asks(&world, &mut client)
}

/// The client may be asked a moment before askd is.
fn first_open(world: &World) -> Result<Ask> {
    until("the ask at askd", || Ok(world.open()?.into_iter().next()))
}

/// The first is allowed at askd, the second rejected in the client.
fn two_main_asks(world: &World, client: &mut AcpClient) -> Result<()> {
    let prompt = client.prompt("play=main")?;
    let dialog = client.ask("touch one")?;
    let ask = first_open(world)?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("one")?;
    client.withdrawn(&dialog)?;
    let dialog = client.ask("touch two")?;
    choose(client, &dialog, "reject_once")?;
    client.result(prompt)?;
    was_refused(world, client, &dialog)?;
    assert!(!world.made("two"));
    let outcomes: Vec<_> = world.asks()?.iter().filter_map(|ask| ask.outcome.clone()).collect();
    let told: Vec<_> =
        outcomes.iter().map(|outcome| (outcome.outcome.as_str(), outcome.cause.as_str())).collect();
    assert_eq!(told.len(), 2);
    assert!(told.contains(&("allowed", "person")) && told.contains(&("denied", "person")), "{told:?}");
    Ok(())
}

/// Codex with a child that wants to make a file.
fn codex_with_a_child(world: &World, capabilities: &Value) -> Result<(AcpClient, Model, u64)> {
    let command = |command: &str| {
        Step::call(
            "exec_command",
            json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "a test"}),
        )
    };
    let spawn = Step::call("multi_agent_v1::spawn_agent", json!({"message": "play=kid"}));
    let scripts = Scripts::of("main", [spawn, Step::say("done")])
        .with("kid", [command("touch childs"), Step::say("the child is done")]);
    let model = Model::start(scripts)?;
    let env = codex_env(world, &model)?;
    let command = behind_askd(world.askd(), &[], &Program::CodexAcp.command()?);
    let mut client = AcpClient::start(world, &command, env, capabilities)?;
    client.open(Some("read-only"))?;
    let prompt = client.prompt("play=main")?;
    Ok((client, model, prompt))
}

#[test]
fn a1_a3_a_child_of_codex_asks_on_its_own_session_where_the_client_knows_it() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let (mut client, _model, _prompt) = codex_with_a_child(&world, &json!({"subagents": {}}))?;
    let dialog = client.ask("touch childs")?;
    assert_ne!(dialog["params"]["sessionId"], client.session.as_str());
    let ask = first_open(&world)?;
    assert_eq!((ask.lineage.root.as_str(), ask.lineage.subagent.is_some()), (client.session.as_str(), true));
    choose(&mut client, &dialog, "allow_once")?;
    world.wait_made("childs")?;
    let ask = world.wait(&ask.id, "the answer known", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("allowed", "person")));
    Ok(())
}

#[test]
fn a1_a8_a_child_of_codex_is_answered_elsewhere_where_the_client_does_not_know_it() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let (mut client, _model, _prompt) = codex_with_a_child(&world, &json!({}))?;
    let dialog = client.ask("touch childs")?;
    assert_eq!(dialog["params"]["sessionId"], client.session.as_str());
    let ask = first_open(&world)?;
    // Codex says nothing of who asks; that the call was never announced tells that it is a subagent's.
    assert!(ask.lineage.subagent.is_some(), "{ask:?}");
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("childs")?;
    client.withdrawn(&dialog)?;
    choose(&mut client, &dialog, "reject_once")?;
    Ok(())
}

#[test]
fn a3_a6_a_cancel_reaches_claudes_child_session_and_a_late_allow_runs_nothing() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [Step::agent("the child", "kid", false), Step::say("done")])
        .with("kid", [Step::bash("touch late"), Step::say("done")])
        .with("next", [Step::bash("touch next"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let command = behind_askd(world.askd(), &[], &Program::ClaudeAcp.command()?);
    let env = claude_env(&world, &model);
    let mut client = AcpClient::start(&world, &command, env, &json!({"subagents": {}}))?;
    client.open(Some("default"))?;
    let prompt = client.prompt("play=main")?;
    let dialog = client.ask("touch late")?;
    assert_ne!(dialog["params"]["sessionId"], client.session.as_str());
    let ask = world.ask("touch late")?;
    client.cancel()?;
    // By itself this child would outlive its parent's cancel, and the answer would still run it.
    let ask = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("withdrawn", "cancelled")));
    choose(&mut client, &dialog, "allow_once")?;
    client.result(prompt)?;

    let prompt = client.prompt("play=next")?;
    let next = client.ask("touch next")?;
    choose(&mut client, &next, "allow_once")?;
    world.wait_made("next")?;
    client.result(prompt)?;
    assert!(!world.made("late"));
    Ok(())
}

#[test]
fn a2_translated_a_childs_ask_comes_on_the_parents_session_with_its_name() -> Result<()> {
    let mut world = World::new()?;
    world.start_daemon()?;
    let scripts = Scripts::of("main", [Step::agent("the child", "kid", false), Step::say("done")])
        .with("kid", [Step::bash("touch childs"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let command = behind_askd(world.askd(), &["--subagents=translate"], &Program::ClaudeAcp.command()?);
    let mut client = AcpClient::start(&world, &command, claude_env(&world, &model), &json!({}))?;
    client.open(Some("default"))?;
    let prompt = client.prompt("play=main")?;
    let dialog = client.ask("touch childs")?;
    assert_eq!(dialog["params"]["sessionId"], client.session.as_str());
    let title = dialog["params"]["toolCall"]["title"].as_str().unwrap_or_default();
    assert!(title.starts_with("[the child] "), "{title}");
    assert!(dialog.pointer("/params/_meta/fx/subagent/sessionId").is_some(), "{dialog}");
    choose(&mut client, &dialog, "allow_once")?;
    world.wait_made("childs")?;
    assert_eq!(client.stop_reason(prompt)?, "end_turn");
    let told = client.notifications("session/update");
    assert!(
        told.iter().all(|update| update["params"]["update"]["sessionUpdate"] != "subagent_update"),
        "a client that does not know subagent sessions hears of none"
    );
    Ok(())
}
