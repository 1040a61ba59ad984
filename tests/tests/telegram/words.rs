//! What people write and read: replies, commands, long actions, hostile text.

use std::fs;

use anyhow::Result;
use askd_tests::bot::Shown;
use askd_tests::until;

use crate::scene::{ANNA, HERS, Scene};

fn is_reply_to(id: i64) -> impl Fn(&Shown) -> bool {
    move |shown| shown.reply_to == Some(id)
}

#[test]
fn s5_a_bare_yes_answers_nothing_and_brings_the_list() -> Result<()> {
    let scene = Scene::new()?;
    // To nothing at all.
    let id = scene.bot.write(ANNA, HERS, "y", None);
    scene.bot.wait(HERS, "an explanation", |shown| {
        shown.text.contains("Nothing was answered") && is_reply_to(id)(shown)
    })?;
    // To the only one, and it may not be the one that was meant.
    let asker = scene.ask("make bare")?;
    let card = scene.card(&asker)?;
    let id = scene.bot.write(ANNA, HERS, "y", None);
    scene.bot.wait(HERS, "an explanation", |shown| {
        shown.text.contains("Nothing was answered") && is_reply_to(id)(shown)
    })?;
    scene
        .bot
        .wait(HERS, "the list", |shown| shown.text.contains("1 open") && shown.text.contains("make bare"))?;
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    scene.bot.write(ANNA, HERS, "y", Some(card.id));
    assert_eq!(asker.outcome()?.0, 0);
    Ok(())
}

#[test]
fn s5_any_other_reply_gets_help_and_answers_nothing() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.ask("make talk")?;
    let card = scene.card(&asker)?;
    for text in ["ok", "yes please", "nope", "what is this?", "allow k7f", "/start", "/frobnicate now"] {
        let id = scene.bot.write(ANNA, HERS, text, Some(card.id));
        scene.bot.wait(HERS, "help", |shown| shown.text.contains("/asks lists") && is_reply_to(id)(shown))?;
    }
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    Ok(())
}

#[test]
fn t7_permissions_are_shown_and_changed_from_the_chat() -> Result<()> {
    let scene = Scene::new()?;
    scene.bot.write(ANNA, HERS, "/permissions timeout 61", None);
    until("the change", || Ok(scene.world.must(&["permissions"])?.contains("1m1s").then_some(())))?;
    scene.bot.write(ANNA, HERS, "/skip-permissions", None);
    scene.bot.wait(HERS, "the question", |shown| shown.text.contains("on or /skip-permissions off"))?;
    assert_eq!(scene.ask("make asked")?.ask.state, "open");
    scene.bot.write(ANNA, HERS, "/skip_permissions@askd_test_bot on", None);
    until("skipping", || {
        let now: serde_json::Value = serde_json::from_str(&scene.world.must(&["permissions", "--json"])?)?;
        Ok((now["skip"] == true).then_some(()))
    })?;
    assert_eq!(scene.raise("make skipped", &[])?.output()?.status.code(), Some(0));
    let id = scene.bot.write(ANNA, HERS, "/permissions nonsense", None);
    scene.bot.wait(HERS, "a refusal", is_reply_to(id))?;
    // Not written to the config.
    let config = fs::read_to_string(scene.world.askd_dir().join("config.toml"))?;
    assert!(!config.contains("permissions"));
    Ok(())
}

#[test]
fn t18_the_list_names_every_open_ask() -> Result<()> {
    let scene = Scene::with(&[HERS], &[ANNA], "max_open = 1\n")?;
    let (first, second) = (scene.ask("make alpha")?, scene.ask("make beta")?);
    let id = scene.bot.write(ANNA, HERS, "/asks", None);
    let list = scene.bot.wait(HERS, "the list", is_reply_to(id))?;
    for asker in [&first, &second] {
        assert!(
            list.text.contains(&asker.ask.handle) && list.text.contains(asker.ask.command()),
            "{}",
            list.text
        );
    }
    Ok(())
}

#[test]
fn s4_a_long_action_comes_in_parts_with_the_yes_below_the_last() -> Result<()> {
    let scene = Scene::new()?;
    let long: String = (0..300).map(|n| format!("echo line-{n:03}\n")).collect();
    let asker = scene.ask(&long)?;
    let card = scene.card_of_parts(&asker)?;
    let all: String = scene.bot.chat(HERS).iter().map(|shown| shown.text.clone() + "\n").collect();
    for n in 0..300 {
        assert!(all.contains(&format!("echo line-{n:03}")), "{n}: {all}");
    }
    let parts = scene.bot.chat(HERS);
    assert!((2..=3).contains(&parts.len()), "{}", parts.len());
    assert!(parts[..parts.len() - 1].iter().all(|shown| shown.buttons.is_empty()));
    scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
    assert_eq!(asker.outcome()?.0, 0);
    Ok(())
}

#[test]
fn s4_what_does_not_fit_can_be_denied_here_and_not_allowed() -> Result<()> {
    let scene = Scene::new()?;
    let long: String = (0..2000).map(|n| format!("echo line-{n:04}\n")).collect();
    let asker = scene.ask(&long)?;
    let card = scene.card(&asker)?;
    assert!(card.text.contains("too long to be allowed from here"), "{}", card.text);
    assert!(card.text.contains(&format!("askd show {}", asker.ask.handle)));
    assert!(!card.buttons.iter().any(|(label, _)| label.contains("Allow")), "{card:?}");
    let id = scene.bot.write(ANNA, HERS, "y", Some(card.id));
    let said = scene.bot.wait(HERS, "a refusal", is_reply_to(id))?;
    assert!(said.text.contains("nothing was allowed"), "{}", said.text);
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
    assert_eq!(asker.outcome()?.0, 1);
    Ok(())
}

#[test]
fn s4_hostile_text_is_marked_and_inert() -> Result<()> {
    let scene = Scene::new()?;
    let hostile = "echo </pre><a href=\"https://evil\">x</a> & \u{202e}gpj.exe\u{1b}[2J @everyone *b* _i_ [l](tg://user?id=1)";
    let asker = scene.ask(hostile)?;
    let card = scene.card(&asker)?;
    for shown in [
        "</pre><a href=\"https://evil\">x</a> &",
        "\\u{202e}gpj.exe\\u{1b}[2J",
        "*b* _i_ [l](tg://user?id=1)",
    ] {
        assert!(card.text.contains(shown), "{shown}: {}", card.text);
    }
    let sent = &scene.bot.calls("sendMessage")[0];
    assert_eq!(sent["link_preview_options"]["is_disabled"], true);
    assert_eq!(scene.bot.calls("sendMessage").len(), 1, "it was understood at once");
    Ok(())
}

#[test]
fn t1_another_option_of_the_agent_is_confirmed_first() -> Result<()> {
    let scene = Scene::new()?;
    let asker = scene.raise_with_always("make always")?;
    let card = scene.bot.card(HERS, &asker)?;
    assert!(card.text.contains("allow always") && card.text.contains("Bash(make:*)"), "{}", card.text);
    let tap = scene.bot.tap(ANNA, HERS, &card, "allow always")?;
    assert_eq!(scene.bot.toast(&tap)?, "tap once more to confirm");
    let sure = scene.bot.wait(HERS, "the question", |shown| shown.text.contains("Really allow always"))?;
    scene.bot.tap(ANNA, HERS, &sure, "Back")?;
    scene.bot.wait(HERS, "the card", |shown| shown.id == card.id && shown.buttons.len() > 2)?;
    scene.bot.tap(ANNA, HERS, &card, "allow always")?;
    let sure = scene.bot.wait(HERS, "the question", |shown| shown.text.contains("Really allow always"))?;
    scene.bot.tap(ANNA, HERS, &sure, "Yes: allow always")?;
    scene.bot.ended(HERS, card.id, "allowed (always) by you in Telegram")?;
    Ok(())
}

#[test]
fn notify_command_gets_every_ask_once_as_json_with_secrets_covered() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    let out = scene.world.file("told");
    scene.configure(&[HERS], &[ANNA], &format!("[notify]\ncommand = \"cat >> {}\"\n", out.display()))?;
    scene.world.start_daemon()?;
    scene.accept()?;
    let secret = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    let first = scene.ask(&format!("echo {secret}"))?;
    let second = scene.ask("make noise")?;
    let told = until("both asks", || {
        let text = fs::read_to_string(&out)?;
        let asks: Vec<serde_json::Value> =
            text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok((asks.len() == 2).then_some(asks))
    })?;
    let ids: Vec<_> = told.iter().map(|ask| ask["id"].as_str().unwrap_or_default()).collect();
    assert_eq!(ids, [first.ask.id.as_str(), second.ask.id.as_str()]);
    assert!(!told[0].to_string().contains(&secret), "{}", told[0]);
    assert!(told[1]["display"].to_string().contains("make noise"));
    Ok(())
}

#[test]
fn a_notify_command_that_still_runs_ends_with_the_daemon() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    let pids = scene.world.file("pids");
    let command = format!("[notify]\ncommand = \"echo $$ >> {}; sleep 3600 | cat\"\n", pids.display());
    fs::write(scene.world.askd_dir().join("config.toml"), command)?;
    scene.world.start_daemon()?;
    scene.world.must(&["config", "accept", "--yes"])?;
    let _asker = scene.ask("make noise")?;
    let pid: u32 = until("the command to run", || {
        Ok(fs::read_to_string(&pids).ok().and_then(|text| text.lines().next()?.parse().ok()))
    })?;
    until("its pipeline to run", || Ok((askd_tests::children(pid).len() == 2).then_some(())))?;
    let all: Vec<u32> = askd_tests::children(pid).into_iter().map(|(pid, _)| pid).chain([pid]).collect();
    scene.world.must(&["daemon", "stop"])?;
    until("all of it to end", || Ok((!all.iter().any(|pid| askd_tests::alive(*pid))).then_some(())))
}
