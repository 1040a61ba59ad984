use std::fs::{self, File};

use anyhow::Result;
use askd_tests::{Model, Scripts, Step, World, until};
use serde_json::json;

use super::host::RpcHost;
use super::{bash, bash_asks, install};

fn world(model: &Model) -> Result<World> {
    let mut world = World::bare()?;
    install(&world, model, &bash_asks())?;
    world.start_daemon()?;
    Ok(world)
}

#[test]
fn c11_dialogs_of_pis_rpc_mode_are_answered_at_askd_or_by_the_host_and_the_first_wins() -> Result<()> {
    let steps = [
        bash("touch one && echo done"),
        bash("touch two"),
        bash("touch three"),
        bash("touch four"),
        bash("touch five"),
        Step::say("all is done"),
    ];
    let model = Model::start(Scripts::of("main", steps))?;
    let world = world(&model)?;
    let mut host = RpcHost::start(&world)?;
    host.prompt("main")?;

    // A yes at askd; the host hears of it, and its late no changes nothing.
    let dialog = host.dialog("touch one")?;
    let ask = world.ask("touch one")?;
    assert_eq!((ask.lineage.agent.as_str(), ask.attendance.as_str()), ("pi", "foreground"));
    assert_eq!(ask.command(), "touch one && echo done", "the call in full, not the dialog's text");
    let labels: Vec<(&str, &str)> =
        ask.options.iter().map(|choice| (choice.label.as_str(), choice.kind.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("Yes", "allow_once"),
            ("Yes, allow bash \"touch *\" for this session", "allow_always"),
            ("No", "reject_once")
        ]
    );
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("one")?;
    host.notice("allowed by")?;
    host.answer(&dialog, "No")?;

    // A no with words at askd.
    let ask = world.ask("touch two")?;
    assert_eq!(world.deny(&ask.id, "use the other one")?, 0);
    let told = model.result("main", 1)?;
    assert!(told.text.contains("use the other one"), "{told:?}");
    let ask = world.wait(&ask.id, "the denial confirmed", |ask| ask.delivery == "confirmed")?;
    assert_eq!(ask.settled(), Some(("denied", "person")));

    // A no without words is pi's own.
    let ask = world.ask("touch three")?;
    assert_eq!(world.run(&["deny", &ask.id])?.code, 0);
    let told = model.result("main", 2)?;
    assert!(told.text.contains("User denied") && !told.text.contains("Reason"), "{told:?}");

    // The host is first.
    let dialog = host.dialog("touch four")?;
    let ask = world.ask("touch four")?;
    host.answer(&dialog, "Yes")?;
    world.wait_made("four")?;
    let ask = world.wait(&ask.id, "the host's answer", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("allowed", "person")));
    assert_eq!(world.deny(&ask.id, "too late")?, 5);

    // The host's own reason: pi asks for it there, and that is no ask.
    let dialog = host.dialog("touch five")?;
    let ask = world.ask("touch five")?;
    host.answer(&dialog, "No, provide reason")?;
    let reason = host.dialog("Share why")?;
    host.answer(&reason, "said by the host")?;
    let told = model.result("main", 4)?;
    assert!(told.text.contains("said by the host"), "{told:?}");
    let ask = world.wait(&ask.id, "the host's answer", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("denied", "person")));
    host.settled()?;
    assert!(!world.made("two") && !world.made("three") && !world.made("five"));
    assert_eq!(world.asks()?.len(), 5, "each dialog was one ask");
    let own = |line: &serde_json::Value| line.to_string().contains("get_state");
    assert!(!host.lines().iter().any(own), "the host sees no reply to what it did not ask");
    host.leave();
    assert_eq!(host.ended()?, 0);
    Ok(())
}

#[test]
fn a6_an_abort_of_the_host_ends_the_ask_and_pi_waits_no_longer() -> Result<()> {
    let scripts = Scripts::of("main", [bash("touch late"), Step::say("done")])
        .with("next", [bash("touch next"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let world = world(&model)?;
    let mut host = RpcHost::start(&world)?;
    host.prompt("main")?;
    let dialog = host.dialog("touch late")?;
    let ask = world.ask("touch late")?;
    host.send(&json!({"id": "a", "type": "abort"}))?;
    // By itself pi would wait for its dialog for ever.
    host.settled()?;
    let ask = world.wait(&ask.id, "the ask withdrawn", |ask| ask.state == "settled")?;
    assert_eq!(ask.settled(), Some(("withdrawn", "cancelled")));
    assert_eq!(world.allow(&ask.id)?, 5);
    host.answer(&dialog, "Yes")?;
    host.prompt("next")?;
    let next = world.ask("touch next")?;
    assert_eq!(world.allow(&next.id)?, 0);
    world.wait_made("next")?;
    assert!(!world.made("late"));
    Ok(())
}

#[test]
fn c7_a_host_that_goes_leaves_the_ask_open_and_a_cancelled_dialog_is_no_answer() -> Result<()> {
    let steps = [bash("touch one"), bash("touch two"), Step::say("all is done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let world = world(&model)?;
    let mut host = RpcHost::start(&world)?;
    host.prompt("main")?;
    // Somebody else is there, so the host only leaves the race.
    let said = world.file("queue-said");
    let mut queue = world.command(&["--plain"]);
    queue.stdin(std::process::Stdio::piped()).stdout(File::create(&said)?);
    let mut queue = queue.spawn()?;
    let dialog = host.dialog("touch one")?;
    let one = world.ask("touch one")?;
    until("the ask on a second surface", || {
        Ok(fs::read_to_string(&said)?.contains("touch one").then_some(()))
    })?;
    host.cancel(&dialog)?;
    assert_eq!(world.show(&one.id)?.state, "open");
    assert_eq!(world.allow(&one.id)?, 0);
    world.wait_made("one")?;
    let two = world.ask("touch two")?;
    host.leave();
    world.wait(&two.id, "the ask still open", |ask| ask.state == "open")?;
    assert_eq!(world.allow(&two.id)?, 0);
    world.wait_made("two")?;
    assert_eq!(host.ended()?, 0);
    model.wait_for("main", 2)?;
    drop(queue.kill());
    drop(queue.wait());
    Ok(())
}
