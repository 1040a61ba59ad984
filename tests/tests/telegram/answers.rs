//! Answers: by a tap, by a reply, with words; the first one wins wherever it was given, and everybody hears the truth.

use anyhow::Result;
use askd_tests::until;

use crate::scene::{ANNA, BERT, GROUP, HERS, MALLORY, Scene};

#[test]
fn t1_a_tap_allows_and_the_card_says_so() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.ask("make test")?;
    let card = scene.card(&asker)?;
    assert!(card.text.contains("command: make test"), "{}", card.text);
    let tap = scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
    let handle = asker.ask.handle.clone();
    let (code, outcome) = asker.outcome()?;
    assert_eq!(code, 0, "{outcome}");
    assert_eq!(
        [&outcome["outcome"], &outcome["cause"], &outcome["source"], &outcome["surface"]],
        ["allowed", "person", "remote", "Telegram"]
    );
    assert_eq!(scene.bot.toast(&tap)?, format!("{handle}: allowed by you in Telegram"));
    scene.bot.ended(HERS, card.id, "✅ allowed by you in Telegram")?;
    Ok(())
}

#[test]
fn t1_a_tap_denies() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.ask("rm -rf build")?;
    let card = scene.card(&asker)?;
    scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["outcome"]), (1, &"denied".into()));
    scene.bot.ended(HERS, card.id, "⛔ denied by you in Telegram")?;
    Ok(())
}

#[test]
fn t1_words_of_a_denial_reach_the_agent() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.ask("make all")?;
    let card = scene.card(&asker)?;
    scene.bot.tap(ANNA, HERS, &card, "with a message")?;
    let prompt = scene.bot.wait(HERS, "the question for words", |shown| shown.force_reply)?;
    assert_eq!(prompt.reply_to, Some(card.id));
    // A yes to a question for words is no yes.
    scene.bot.write(ANNA, HERS, "yes, but only the tests", Some(prompt.id));
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["message"]), (1, &"yes, but only the tests".into()));
    scene.bot.ended(HERS, card.id, "denied by you in Telegram: yes, but only the tests")?;

    let asker = scene.ask("make install")?;
    let card = scene.card(&asker)?;
    scene.bot.write(ANNA, HERS, "no, not as root", Some(card.id));
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["message"]), (1, &"not as root".into()));
    Ok(())
}

#[test]
fn t15_answered_elsewhere_first_is_told_on_the_card_and_to_a_late_tap() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.ask("make elsewhere")?;
    let card = scene.card(&asker)?;
    let allow = card.buttons[0].1.clone();
    assert_eq!(scene.world.deny(&asker.ask.id, "use the other one")?, 0);
    scene.bot.ended(HERS, card.id, "denied by you in the command line: use the other one")?;
    let tap = scene.bot.tap_data(ANNA, HERS, card.id, &allow);
    let toast = scene.bot.toast(&tap)?;
    assert!(toast.contains("already denied by you in the command line"), "{toast}");
    let (code, _) = asker.outcome()?;
    assert_eq!(code, 1);
    Ok(())
}

#[test]
fn t4_the_timer_comes_first_and_is_named() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.background("make slow", 3)?;
    let card = scene.card(&asker)?;
    assert!(card.text.contains("auto-deny in"), "{}", card.text);
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["cause"], &outcome["source"]), (1, &"timed".into(), &"timed".into()));
    scene.bot.ended(HERS, card.id, "timed out: auto-denied after 3s")?;
    Ok(())
}

#[test]
fn t1_a_withdrawn_ask_has_a_dead_card() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.ask("make nothing")?;
    let card = scene.card(&asker)?;
    scene.world.must(&["withdraw", &asker.ask.id])?;
    let shown = scene.bot.ended(HERS, card.id, "withdrawn")?;
    assert!(shown.text.contains("make nothing"), "{}", shown.text);
    assert_eq!(asker.outcome()?.0, 3);
    Ok(())
}

#[test]
fn t16_twenty_asks_have_five_cards_at_a_time_and_none_is_lost() -> Result<()> {
    let scene = Scene::new()?;
    let askers: Vec<_> = (0..20).map(|n| scene.ask(&format!("step {n:02}"))).collect::<Result<_>>()?;
    let live = || {
        let cards = scene.bot.chat(HERS);
        cards.into_iter().filter(|shown| !shown.buttons.is_empty()).collect::<Vec<_>>()
    };
    // One of those that wait for their slot is settled before: it is never shown.
    let waiting = &askers[19].ask;
    assert_eq!(scene.world.deny(&waiting.id, "not needed")?, 0);
    for (n, asker) in askers.iter().enumerate().take(19) {
        let card = scene.bot.card(HERS, &asker.ask.handle)?;
        assert!(live().len() <= 5, "{:#?}", live());
        scene.bot.tap(ANNA, HERS, &card, if n % 2 == 0 { "Allow once" } else { "⛔ Deny" })?;
    }
    let never = waiting.handle.clone();
    for (n, asker) in askers.into_iter().enumerate() {
        let (code, outcome) = asker.outcome()?;
        assert_eq!(code, i32::from(n == 19 || n % 2 == 1), "{n}: {outcome}");
    }
    until("all cards to be over", || Ok(live().is_empty().then_some(())))?;
    assert!(!scene.bot.chat(HERS).iter().any(|shown| shown.text.starts_with(&never)));
    Ok(())
}

#[test]
fn t16_one_slot_serialises() -> Result<()> {
    let scene = Scene::with(&[HERS], &[ANNA], "max_open = 1\n")?;
    let first = scene.ask("one")?;
    let second = scene.ask("two")?;
    let card = scene.card(&first)?;
    assert!(!scene.bot.chat(HERS).iter().any(|shown| shown.text.starts_with(&second.ask.handle)));
    scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
    scene.card(&second)?;
    Ok(())
}

#[test]
fn t16_an_ask_that_waited_out_its_deadline_for_a_slot_is_noted_and_never_shown() -> Result<()> {
    let scene = Scene::with(&[HERS], &[ANNA], "max_open = 1\n")?;
    let first = scene.ask("one")?;
    let card = scene.card(&first)?;
    let second = scene.background("two", 3)?;
    let (id, handle) = (second.ask.id.clone(), second.ask.handle.clone());
    let (code, outcome) = second.outcome()?;
    assert_eq!((code, &outcome["cause"]), (1, &"timed".into()), "{outcome}");
    let log = scene.world.log()?;
    let noted = |line: &&str| line.contains(&id) && line.contains("surface_failed");
    assert!(log.lines().any(|line| noted(&line)), "{log}");
    // The slot was never its own, and is not held by it.
    scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
    let third = scene.ask("three")?;
    scene.card(&third)?;
    assert!(!scene.bot.chat(HERS).iter().any(|shown| shown.text.starts_with(&handle)));
    Ok(())
}

#[test]
fn t1_words_asked_for_in_a_group_reach_the_agent_too() -> Result<()> {
    let scene = Scene::with(&[GROUP], &[ANNA, BERT], "")?;
    let asker = scene.ask("make it so")?;
    let card = scene.bot.card(GROUP, &asker.ask.handle)?;
    scene.bot.tap(ANNA, GROUP, &card, "with a message")?;
    let prompt = scene.bot.wait(GROUP, "the question for words", |shown| shown.force_reply)?;
    // Whoever is not on the list may see the question and says nothing by it.
    scene.bot.write(MALLORY, GROUP, "because", Some(prompt.id));
    scene.bot.all_confirmed()?;
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    scene.bot.write(ANNA, GROUP, "not on a Friday", Some(prompt.id));
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["message"]), (1, &"not on a Friday".into()));
    Ok(())
}

#[test]
fn t1_two_taps_are_one_answer() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.ask("make twice")?;
    let card = scene.card(&asker)?;
    let (first, second) = (
        scene.bot.tap(ANNA, HERS, &card, "Allow once")?,
        scene.bot.tap_data(ANNA, HERS, card.id, &card.buttons[0].1),
    );
    assert!(scene.bot.toast(&first)?.ends_with("allowed by you in Telegram"));
    let toast = scene.bot.toast(&second)?;
    assert!(toast.contains("already allowed by you in Telegram"), "{toast}");
    assert_eq!(asker.outcome()?.0, 0);
    Ok(())
}

#[test]
fn t1_of_two_people_with_opposite_taps_one_wins_and_both_hear_who() -> Result<()> {
    let scene = Scene::with(&[GROUP, HERS], &[ANNA, BERT], "")?;
    let asker = scene.ask("make opposite")?;
    let hers = scene.card(&asker)?;
    let theirs = scene.bot.card(GROUP, &asker.ask.handle)?;
    let no = scene.bot.tap(BERT, GROUP, &theirs, "⛔ Deny")?;
    let yes = scene.bot.tap_data(ANNA, HERS, hers.id, &hers.buttons[0].1);
    let (no, yes) = (scene.bot.toast(&no)?, scene.bot.toast(&yes)?);
    assert!(no.ends_with("denied by Bert in Telegram"), "{no}");
    assert!(yes.contains("already denied by Bert in Telegram"), "{yes}");
    for (chat, card) in [(HERS, hers.id), (GROUP, theirs.id)] {
        scene.bot.ended(chat, card, "denied by Bert in Telegram")?;
    }
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["by"]), (1, &"Bert".into()));
    Ok(())
}

#[test]
fn t3_a_silence_settles_a_foreground_ask_only_where_that_is_configured() -> Result<()> {
    let scene = Scene::with(&[HERS], &[ANNA], "[remote]\ntimeout_secs = 2\n")?;
    let asker = scene.ask("make silence")?;
    let card = scene.card(&asker)?;
    let (code, outcome) = asker.outcome()?;
    assert_eq!(
        (code, &outcome["cause"], &outcome["source"]),
        (1, &"remote_timeout".into(), &"policy".into())
    );
    scene.bot.ended(HERS, card.id, "no remote answer: auto-denied after 2s")?;
    Ok(())
}

#[test]
fn t17_background_job_and_safety_asks_all_come_with_who_asks() -> Result<()> {
    let scene = Scene::new()?;
    let job = scene.ask_with("make job", &["--background", "--job", "nightly", "--subagent", "tests"])?;
    let card = scene.card(&job)?;
    for words in ["job nightly", "subagent tests", "background", "auto-deny in 6m0s"] {
        assert!(card.text.contains(words), "{words}: {}", card.text);
    }
    let safety = scene.ask_with("make loop", &["--safety", "it repeats itself"])?;
    assert!(scene.card(&safety)?.text.contains("safety"));
    Ok(())
}
