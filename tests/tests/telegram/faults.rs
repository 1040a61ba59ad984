//! What goes wrong on the way: nothing of it is an answer, nothing of it loses one, and it is told clearly.

use std::time::Duration;

use anyhow::Result;
use askd_tests::bot::{Fault, limits};
use askd_tests::until;
use serde_json::json;

use crate::scene::{ANNA, GROUP, HERS, Scene};

#[test]
fn t2_with_the_network_down_the_timer_decides_and_the_cause_is_true() -> Result<()> {
    let scene = Scene::new()?;
    scene.bot.down(true);
    let asker = scene.background("make unseen", 4)?;
    until("doctor to tell", || Ok(scene.doctor()?.contains("Telegram does not work").then_some(())))?;
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["cause"]), (1, &"timed".into()));
    scene.bot.down(false);
    until("doctor to tell that it works", || Ok(scene.doctor()?.contains("Telegram works").then_some(())))?;
    // The next ask is shown, and the one that is over is not.
    let asker = scene.ask("make seen")?;
    scene.card(&asker)?;
    assert!(!scene.bot.chat(HERS).iter().any(|shown| shown.text.contains("make unseen")));
    Ok(())
}

#[test]
fn t15_a_card_whose_ask_ended_while_the_network_was_down_is_ended_later() -> Result<()> {
    let mut scene = Scene::new()?;
    let first = scene.ask("make one")?;
    let second = scene.ask("make two")?;
    let (one, two) = (scene.card(&first)?, scene.card(&second)?);
    scene.bot.down(true);
    scene.world.allow(&first.ask.id)?;
    assert_eq!(first.outcome()?.0, 0);
    // Also over a crash.
    scene.restart(|scene| {
        scene.bot.down(false);
        Ok(())
    })?;
    scene.bot.ended(HERS, one.id, "allowed by you in the command line")?;
    scene.world.deny(&second.ask.id, "no")?;
    scene.bot.ended(HERS, two.id, "denied by you in the command line")?;
    let cards = scene.bot.chat(HERS).into_iter().filter(|shown| shown.text.contains("make two"));
    assert_eq!(cards.count(), 1, "no second card after the restart");
    Ok(())
}

#[test]
fn t10_a_decline_that_waited_at_the_server_beats_a_deadline_that_passed_meanwhile() -> Result<()> {
    let mut scene = Scene::new()?;
    let asker = scene.background("make declined", 3)?;
    let card = scene.card(&asker)?;
    let deadline = std::time::Instant::now() + Duration::from_secs(3);
    scene.restart(|scene| {
        scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
        until("the deadline", || Ok((std::time::Instant::now() > deadline).then_some(())))
    })?;
    let settled = scene.settled(&asker.ask.id)?;
    let outcome = settled.outcome.as_ref().unwrap();
    assert_eq!((outcome.cause.as_str(), outcome.source.as_deref()), ("person", Some("remote")));
    scene.bot.ended(HERS, card.id, "denied by you in Telegram")?;
    Ok(())
}

#[test]
fn s5_a_tap_survives_a_kill_at_every_step_and_counts_once() -> Result<()> {
    let mut scene = Scene::new()?;
    for round in 0..4 {
        let asker = scene.ask(&format!("make round {round}"))?;
        let card = scene.card(&asker)?;
        scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
        // Wherever it is: before the poll, between answer and journal, or behind both.
        match round {
            0 => {}
            1 => drop(scene.settled(&asker.ask.id)?),
            2 => scene.bot.all_confirmed()?,
            _ => drop(scene.bot.ended(HERS, card.id, "denied")?),
        }
        scene.restart(|_| Ok(()))?;
        let (code, outcome) = asker.outcome()?;
        assert_eq!((code, &outcome["cause"]), (1, &"person".into()), "round {round}: {outcome}");
        scene.bot.ended(HERS, card.id, "denied by you in Telegram")?;
    }
    scene.bot.all_confirmed()?;
    let log = scene.world.log()?;
    assert_eq!(log.matches("\"what\":\"settled\"").count(), 4, "{log}");
    Ok(())
}

#[test]
fn s5_a_late_tap_on_an_old_card_after_a_restart_is_answered_truly() -> Result<()> {
    let mut scene = Scene::new()?;
    let asker = scene.ask("make old")?;
    let card = scene.card(&asker)?;
    let allow = card.buttons[0].1.clone();
    scene.world.deny(&asker.ask.id, "no")?;
    scene.bot.ended(HERS, card.id, "denied")?;
    drop(asker.outcome()?);
    scene.restart(|_| Ok(()))?;
    let tap = scene.bot.tap_data(ANNA, HERS, card.id, &allow);
    let toast = scene.bot.toast(&tap)?;
    assert!(toast.contains("already denied by you in the command line"), "{toast}");
    Ok(())
}

#[test]
fn s5_a_card_whose_sending_was_never_confirmed_answers_and_ends() -> Result<()> {
    let scene = Scene::new()?;
    scene.bot.fault("sendMessage", Some(HERS), Fault::LostReply);
    let asker = scene.ask("make lost")?;
    // There are two then: nobody can know of the first.
    until("both cards", || {
        let cards = scene.bot.chat(HERS).into_iter().filter(|shown| !shown.buttons.is_empty());
        Ok((cards.count() == 2).then_some(()))
    })?;
    let cards: Vec<_> = scene.bot.chat(HERS).into_iter().filter(|shown| shown.bots).collect();
    let tap = scene.bot.tap(ANNA, HERS, &cards[0], "Allow once")?;
    assert!(scene.bot.toast(&tap)?.ends_with("allowed by you in Telegram"));
    assert_eq!(asker.outcome()?.0, 0);
    for card in &cards {
        scene.bot.ended(HERS, card.id, "allowed by you in Telegram")?;
    }
    Ok(())
}

#[test]
fn t2_a_chat_that_has_to_wait_holds_no_other_and_no_answer() -> Result<()> {
    let scene = Scene::with(&[HERS, GROUP], &[ANNA], "")?;
    scene.bot.fault("sendMessage", Some(GROUP), Fault::flood(3600));
    let asker = scene.ask("make flood")?;
    let card = scene.card(&asker)?;
    scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
    assert_eq!(asker.outcome()?.0, 0);
    scene.bot.ended(HERS, card.id, "allowed by you in Telegram")?;
    let sent = scene.bot.calls("sendMessage").into_iter().filter(|call| call["chat_id"] == GROUP);
    assert_eq!(sent.count(), 1, "the server said when to come again");
    Ok(())
}

#[test]
fn t2_after_a_short_wait_the_card_comes() -> Result<()> {
    let scene = Scene::new()?;
    scene.bot.fault("sendMessage", None, Fault::flood(1));
    let asker = scene.ask("make patience")?;
    let card = scene.card(&asker)?;
    // Its end too.
    scene.bot.fault("editMessageText", None, Fault::flood(1));
    scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
    scene.bot.ended(HERS, card.id, "denied")?;
    Ok(())
}

#[test]
fn t2_faults_of_the_server_are_passed_over() -> Result<()> {
    let scene = Scene::new()?;
    let faults = [
        Fault::Reply(500, json!({"ok": false, "error_code": 500, "description": "Internal Server Error"})),
        Fault::Nonsense,
        Fault::HalfReply,
        Fault::Slow(Duration::from_millis(700)),
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        scene.bot.fault("getUpdates", None, fault.clone());
        scene.bot.fault("sendMessage", None, fault.clone());
        let asker = scene.ask(&format!("make fault {n}"))?;
        let card = scene.card(&asker)?;
        scene.bot.fault("editMessageText", None, fault);
        scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
        assert_eq!(asker.outcome()?.0, 1);
        scene.bot.ended(HERS, card.id, "denied")?;
    }
    Ok(())
}

#[test]
fn t2_markup_that_is_refused_comes_as_plain_text() -> Result<()> {
    let scene = Scene::new()?;
    scene.bot.fault("sendMessage", None, Fault::of(limits::ENTITIES));
    let asker = scene.ask("echo '<b>&amp;</b>'")?;
    let card = scene.card(&asker)?;
    assert!(card.text.contains("echo '<b>&amp;</b>'"), "{}", card.text);
    let sent = scene.bot.calls("sendMessage");
    let modes: Vec<_> = sent.iter().map(|call| call.get("parse_mode").is_some()).collect();
    assert_eq!(modes, [true, false]);
    Ok(())
}

#[test]
fn t2_a_blocked_bot_is_a_failed_surface_and_nobodys_answer() -> Result<()> {
    let scene = Scene::new()?;
    scene.bot.block(HERS, true);
    let asker = scene.ask("make blocked")?;
    until("the failure in the log", || {
        let log = scene.world.log()?;
        Ok(log.contains("surface_failed").then_some(()))
    })?;
    assert!(scene.world.log()?.contains("bot was blocked by the user"));
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    until("doctor to tell", || Ok(scene.doctor()?.contains("blocked by the user").then_some(())))?;
    let status = scene.world.must(&["status"])?;
    assert!(status.contains("Telegram does not work"), "{status}");
    // Its slot is free for the next ones, and it works again when the block is gone.
    scene.bot.block(HERS, false);
    let next = scene.ask("make unblocked")?;
    scene.card(&next)?;
    until("doctor to tell that it works", || Ok(scene.doctor()?.contains("Telegram works").then_some(())))?;
    Ok(())
}

#[test]
fn t2_a_second_program_on_the_token_is_told() -> Result<()> {
    let scene = Scene::new()?;
    scene.bot.call("getUpdates", &json!({"timeout": 0}))?;
    until("doctor to tell", || Ok(scene.doctor()?.contains("another program polls").then_some(())))?;
    until("doctor to tell that it works", || Ok(scene.doctor()?.contains("Telegram works").then_some(())))?;
    scene.bot.webhook(true);
    until("doctor to tell", || Ok(scene.doctor()?.contains("a webhook is set").then_some(())))?;
    Ok(())
}

#[test]
fn t2_of_two_daemons_on_one_token_both_say_so_and_one_tap_is_one_answer() -> Result<()> {
    let scene = Scene::new()?;
    let mut other = askd_tests::World::bare()?;
    for file in ["token", "askd/config.toml"] {
        std::fs::copy(scene.world.file(file), other.file(file))?;
    }
    other.start_daemon()?;
    other.must(&["config", "accept", "--yes"])?;
    for world in [&scene.world, &other] {
        until("doctor to tell", || {
            Ok(world.run(&["doctor"])?.stdout.contains("another program polls").then_some(()))
        })?;
    }
    // Of the tap whoever hears it makes what is true for it.
    let asker = scene.ask("make mine")?;
    let card = scene.card(&asker)?;
    scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
    scene.bot.all_confirmed()?;
    assert!(other.asks()?.is_empty());
    other.must(&["daemon", "stop"])?;
    // It may have gone to the other one, which answers nothing of it. The next one is heard.
    if scene.world.show(&asker.ask.id)?.state == "open" {
        scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
    }
    assert_eq!(asker.outcome()?.0, 1);
    scene.bot.ended(HERS, card.id, "denied by you in Telegram")?;
    until("doctor to tell that it works", || Ok(scene.doctor()?.contains("Telegram works").then_some(())))
}

#[test]
fn t2_a_card_that_cannot_be_edited_blocks_nothing() -> Result<()> {
    let scene = Scene::new()?;
    let (first, second) = (scene.ask("make gone")?, scene.ask("make frozen")?);
    let (gone, frozen) = (scene.card(&first)?, scene.card(&second)?);
    scene.bot.delete(HERS, gone.id);
    scene.bot.freeze(HERS, frozen.id);
    for asker in [first, second] {
        scene.world.allow(&asker.ask.id)?;
        assert_eq!(asker.outcome()?.0, 0);
    }
    let third = scene.ask("make next")?;
    let card = scene.card(&third)?;
    scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
    scene.bot.ended(HERS, card.id, "denied")?;
    let tries = scene.bot.calls("editMessageText").into_iter().filter(|call| call["message_id"] == frozen.id);
    assert_eq!(tries.count(), 1);
    Ok(())
}

#[test]
fn t2_a_tap_that_is_too_old_to_be_answered_is_told_by_the_card() -> Result<()> {
    let mut scene = Scene::new()?;
    let asker = scene.ask("make tired")?;
    let card = scene.card(&asker)?;
    let mut tap = String::new();
    scene.restart(|scene| {
        tap = scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
        scene.bot.expire_taps();
        Ok(())
    })?;
    assert_eq!(asker.outcome()?.0, 0);
    scene.bot.ended(HERS, card.id, "allowed by you in Telegram")?;
    assert_eq!(scene.bot.toast_now(&tap), None);
    Ok(())
}
