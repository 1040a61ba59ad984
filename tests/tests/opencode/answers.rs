use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use askd_tests::{Model, Program, Scripts, Step, Terminal, World, alive, until};
use serde_json::json;

use super::server::Server;
use super::{bash, bash_asks, child, disk, env};

#[test]
fn a4_a10_an_ask_is_answered_at_askd_with_opencodes_own_options() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let steps = [bash("touch once"), bash("touch never"), bash("echo a"), bash("echo b"), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let server = Server::start(&world, &model, &bash_asks())?;
    let before = disk(&world)?;
    let session = server.play("main")?;

    let ask = world.ask("touch once")?;
    assert_eq!((ask.action["tool"].as_str(), ask.action["kind"].as_str()), (Some("bash"), Some("execute")));
    assert_eq!(ask.action["input"], json!({"command": "touch once"}));
    assert_eq!(ask.action["cwd"], world.project().display().to_string());
    assert_eq!((ask.lineage.agent.as_str(), ask.lineage.session.as_str()), ("opencode", session.as_str()));
    assert!(ask.lineage.subagent.is_none());
    let options: Vec<_> =
        ask.options.iter().map(|o| (o.id.as_str(), o.label.as_str(), o.kind.as_str())).collect();
    let expected = [
        ("once", "Allow once", "allow_once"),
        ("always", "Always allow", "allow_always"),
        ("reject", "Reject", "reject_once"),
    ];
    assert_eq!(options, expected);
    assert!(!world.made("once"));
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("once")?;
    world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;

    // A no with the person's words; the model goes on.
    let ask = world.ask("touch never")?;
    assert_eq!(world.deny(&ask.id, "leave that alone")?, 0);
    let told = model.result("main", 1)?;
    assert!(told.text.contains("leave that alone"), "{told:?}");
    world.wait(&ask.id, "the delivery confirmed", |ask| ask.delivery == "confirmed")?;

    // Always is what was chosen, and only then: the next echo asks nobody.
    let ask = world.ask("echo a")?;
    assert_eq!(world.run(&["allow", &ask.id, "--option", "always"])?.code, 0);
    model.wait_for("main", 4)?;
    assert_eq!(world.asks()?.len(), 3);
    assert!(!world.made("never"));
    assert_eq!(disk(&world)?.len(), before.len() + 1, "nothing but the file that was allowed: {before:?}");
    Ok(())
}

#[test]
fn a1_a5_children_that_wait_together_each_get_their_own_answer() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let both = child("the first child", "one").and(child("the second child", "two"));
    let scripts = Scripts::of("main", [both, Step::say("done")])
        .with("one", [bash("touch one"), Step::say("one is done")])
        .with("two", [bash("touch two"), Step::say("two is done")]);
    let model = Model::start(scripts)?;
    let server = Server::start(&world, &model, &bash_asks())?;
    let session = server.play("main")?;

    let (one, two) = (world.ask("touch one")?, world.ask("touch two")?);
    for (ask, name) in [(&one, "the first child"), (&two, "the second child")] {
        assert_eq!(ask.lineage.root, session);
        assert_ne!(ask.lineage.session, session);
        let subagent = ask.lineage.subagent.as_ref().context("the ask of a child names it")?;
        assert_eq!((subagent.name.as_deref(), subagent.kind.as_deref()), (Some(name), Some("general")));
        assert_eq!((subagent.depth, subagent.work_id.as_str()), (Some(1), ask.lineage.session.as_str()));
    }
    assert_eq!(world.deny(&two.id, "only one of you")?, 0);
    let told = model.result("two", 0)?;
    assert!(told.text.contains("only one of you"), "{told:?}");
    model.wait_for("two", 1)?;
    assert_eq!(world.show(&one.id)?.state, "open", "one answer settles one ask");
    assert_eq!(world.allow(&one.id)?, 0);
    world.wait_made("one")?;
    model.wait_for("main", 1)?;
    assert!(!world.made("two"));
    Ok(())
}

#[test]
fn a5_a_no_does_not_take_the_asks_beside_it_along() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let model =
        Model::start(Scripts::of("main", [bash("touch no").and(bash("touch yes")), Step::say("done")]))?;
    let server = Server::start(&world, &model, &bash_asks())?;
    server.play("main")?;
    let (no, yes) = (world.ask("touch no")?, world.ask("touch yes")?);
    // opencode itself would reject both.
    assert_eq!(world.deny(&no.id, "not this one")?, 0);
    server.ask("touch no")?;
    assert_eq!(world.show(&yes.id)?.state, "open");
    assert_eq!(world.allow(&yes.id)?, 0);
    world.wait_made("yes")?;
    let told = model.result_of_block("main", 0, 0)?;
    assert!(told.text.contains("not this one"), "{told:?}");
    world.wait(&no.id, "the denial delivered", |ask| ask.delivery == "confirmed")?;
    assert!(!world.made("no"));
    Ok(())
}

#[test]
fn a5_a_yes_for_always_beside_a_no_does_not_run_what_was_denied() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let both = bash("touch no").and(bash("touch yes"));
    let model = Model::start(Scripts::of("main", [both, bash("touch again"), Step::say("done")]))?;
    let server = Server::start(&world, &model, &bash_asks())?;
    server.play("main")?;
    let (no, yes) = (world.ask("touch no")?, world.ask("touch yes")?);
    assert_eq!(world.deny(&no.id, "never that one")?, 0);
    // opencode would answer everything that it covers, and it has not heard of the no.
    assert_eq!(world.run(&["allow", &yes.id, "--option", "always"])?.code, 0);
    world.wait_made("yes")?;
    let told = model.result_of_block("main", 0, 0)?;
    assert!(told.text.contains("never that one"), "{told:?}");
    let no = world.wait(&no.id, "the denial delivered", |ask| ask.delivery == "confirmed")?;
    assert_eq!(no.settled(), Some(("denied", "person")));
    // It was one for once, and that is said.
    let again = world.ask("touch again")?;
    assert!(server.said().contains("allowed once and not for always"), "{}", server.said());
    assert_eq!(world.deny(&again.id, "enough")?, 0);
    model.wait_for("main", 2)?;
    assert!(!world.made("no") && !world.made("again"));
    Ok(())
}

#[test]
fn a4_no_long_description_keeps_an_ask_away() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let name = format!("named {}", "n".repeat(20_000));
    let dotted = format!("{}in", "./".repeat(40_000));
    let step = json!({"command": "touch dotted", "description": "test step", "workdir": dotted});
    let scripts = Scripts::of("main", [Step::call("bash", step), child(&name, "kid"), Step::say("done")])
        .with("kid", [bash("touch child"), Step::say("done")]);
    std::fs::create_dir(world.project().join("in"))?;
    let model = Model::start(scripts)?;
    let server = Server::start(&world, &model, &bash_asks())?;
    server.play("main")?;
    let ask = world.ask("touch dotted")?;
    assert_eq!(ask.action["cwd"], world.project().join("in").display().to_string());
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("in/dotted")?;
    let ask = world.ask("touch child")?;
    let shown = ask.lineage.subagent.as_ref().and_then(|child| child.name.clone()).context("a child asks")?;
    assert!(shown.starts_with("named nnn") && shown.ends_with(" bytes)"), "{shown}");
    assert_eq!(world.deny(&ask.id, "no")?, 0);
    model.wait_for("main", 2)
}

#[test]
fn a8_an_answer_in_opencode_is_learned_and_ends_the_ask() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let steps = [bash("touch yes"), bash("touch no"), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let server = Server::start(&world, &model, &bash_asks())?;
    server.play("main")?;

    let yes = world.ask("touch yes")?;
    server.reply(&server.ask("touch yes")?, "once")?;
    let yes = world.wait(&yes.id, "opencode's own answer learned", |ask| ask.state == "settled")?;
    assert_eq!(yes.settled(), Some(("allowed", "agent")));
    world.wait_made("yes")?;
    assert_eq!(world.deny(&yes.id, "too late")?, 5);

    let no = world.ask("touch no")?;
    server.reply(&server.ask("touch no")?, "reject")?;
    let no = world.wait(&no.id, "opencode's own answer learned", |ask| ask.state == "settled")?;
    assert_eq!(no.settled(), Some(("denied", "agent")));
    assert_eq!(world.allow(&no.id)?, 5);
    assert!(!world.made("no"));
    Ok(())
}

#[test]
fn a8_the_terminal_ui_keeps_its_dialog_and_the_first_answer_counts() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let steps = [bash("touch first"), bash("touch second"), Step::say("all is done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let mut args = vec!["run".to_owned(), "--".to_owned()];
    args.extend(Program::Opencode.command()?);
    args.extend(["--prompt".to_owned(), "play=main".to_owned()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut terminal =
        Terminal::run(world.askd(), &args, env(&world, &model, &bash_asks()), &world.project())?;
    // Its first screen waits for the prompt to be sent. The same key would answer the dialog that comes then.
    terminal.wait_for(&["play=main"])?;
    terminal.press_patiently("\r", "the first ask", |_| world.open().is_ok_and(|open| !open.is_empty()))?;

    // askd is first: the dialog goes away by itself.
    let first = world.ask("touch first")?;
    terminal.wait_for(&["Permission required", "touch first"])?;
    assert_eq!(world.allow(&first.id)?, 0);
    world.wait_made("first")?;
    assert_eq!(world.show(&first.id)?.settled(), Some(("allowed", "person")));

    // The terminal is first.
    let second = world.ask("touch second")?;
    terminal.wait_for(&["Permission required", "touch second"])?;
    terminal.press("\r", "the file second", |_| world.made("second"))?;
    let second = world.wait(&second.id, "the terminal's answer learned", |ask| ask.state == "settled")?;
    assert_eq!(second.settled(), Some(("allowed", "agent")));
    terminal.wait_for(&["all is done"])?;

    // It ends when the agent ends.
    let run = terminal.pid()?;
    terminal.press("\u{3}", "the end of opencode and of askd run", |_| !alive(run))?;
    assert!(world.open()?.is_empty());
    Ok(())
}

#[test]
fn a11_what_opencodes_own_rules_decide_is_never_an_ask() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let steps = [bash("touch ruled"), bash("touch barred"), Step::say("done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let rules = json!({"bash": {"*": "ask", "touch ruled": "allow", "touch barred": "deny"}});
    let server = Server::start(&world, &model, &rules)?;
    server.play("main")?;
    model.wait_for("main", 2)?;
    assert!(world.made("ruled") && !world.made("barred"));
    assert!(world.asks()?.is_empty());
    Ok(())
}

#[test]
fn a1_opencode_run_waits_for_a_person_where_it_would_reject_by_itself() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let scripts =
        Scripts::of("main", [bash("touch yes"), child("the child", "kid"), Step::say("all is done")])
            .with("kid", [bash("touch no"), Step::say("the child is done")]);
    let model = Model::start(scripts)?;
    let mut command = Command::new(world.askd());
    command.args(["run", "--"]).args(Program::Opencode.command()?).args(["run", "play=main"]);
    command.env_clear().envs(env(&world, &model, &bash_asks())).current_dir(world.project());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.process_group(0).spawn()?;

    let yes = world.ask("touch yes")?;
    assert_eq!(world.allow(&yes.id)?, 0);
    world.wait_made("yes")?;
    let no = world.ask("touch no")?;
    assert_eq!(no.lineage.subagent.as_ref().and_then(|child| child.name.as_deref()), Some("the child"));
    assert_eq!(world.deny(&no.id, "not that")?, 0);
    model.wait_for("kid", 1)?;
    until("the end of opencode run", || Ok(run.try_wait()?))?;
    let output = run.wait_with_output()?;
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("all is done"), "{said}\n{told}");
    assert!(told.contains(&format!("askd allow {}", yes.handle)), "{told}");
    assert!(!told.contains("auto-rejecting") && !world.made("no"), "{told}");
    Ok(())
}
