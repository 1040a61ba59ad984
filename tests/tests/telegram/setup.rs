//! `askd setup telegram`, by a person at a terminal with a telephone beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use askd_tests::bot::{Bot, TOKEN};
use askd_tests::{Terminal, World, until};

use crate::scene::{ANNA, HERS, MALLORY};

fn start(world: &World, bot: &Bot) -> Result<Terminal> {
    let args = ["setup", "telegram", "--api-url", &bot.url()];
    Terminal::run(world.askd(), &args, world.env(), &world.home())
}

fn word(terminal: &Terminal) -> Result<String> {
    let found = until("the word to write", || {
        let text = terminal.text();
        Ok(text
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with("askd-") && line.len() == 11)
            .map(str::to_owned))
    });
    found.with_context(|| terminal.text())
}

#[test]
fn s5_setup_finds_the_person_tries_it_out_and_accepts_what_they_saw() -> Result<()> {
    let world = World::bare()?;
    let bot = Bot::start(&[HERS])?;
    let config = world.askd_dir().join("config.toml");
    let before = "# mine\n[permissions]\nqueue_cap = 7\n";
    fs::write(&config, before)?;
    let mut terminal = start(&world, &bot)?;
    terminal.wait_for(&["Paste the token"])?;
    terminal.keys("nonsense\r")?;
    terminal.wait_for(&["not a bot token"])?;
    terminal.keys(&format!("{TOKEN}\r"))?;
    terminal.wait_for(&["the bot is @askd_test_bot"])?;
    let word = word(&terminal)?;
    assert!(!terminal.text().contains(TOKEN), "the token is not shown");
    // Others write to a bot too.
    bot.write(MALLORY, MALLORY.id, "hello", None);
    bot.write(ANNA, HERS, &word, None);
    terminal.wait_for(&["Anna (user 11)", "(yes/no)"])?;
    terminal.keys("yes\r")?;
    let test = bot.wait(HERS, "the test message", |shown| shown.text.contains("This is a test"))?;
    assert!(!config_has(&config, "telegram")?, "nothing is written before it works");
    bot.tap(ANNA, HERS, &test, "It works")?;
    terminal.wait_for(&["Asks come to Telegram now"])?;
    let text = fs::read_to_string(&config)?;
    assert!(text.starts_with(before) && text.contains("chat_ids = [11]") && !text.contains(TOKEN), "{text}");
    assert_eq!(fs::metadata(&config)?.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(world.askd_dir().join("telegram-token"))?.permissions().mode() & 0o777, 0o600);

    // It works at once, with the daemon that setup started.
    let input = r#"{"command":"make first"}"#;
    let mut ask = world.command(&["ask", "--tool", "Bash", "--input", input]).spawn()?;
    let shown =
        bot.wait(HERS, "a card", |shown| shown.text.contains("make first") && !shown.buttons.is_empty())?;
    bot.tap(ANNA, HERS, &shown, "Allow once")?;
    assert_eq!(until("the outcome", || Ok(ask.try_wait()?))?.code(), Some(0));

    let said = world.must(&["setup", "telegram", "--undo"])?;
    assert!(said.contains("took [telegram] out"), "{said}");
    assert_eq!(fs::read_to_string(&config)?, before);
    assert!(!world.askd_dir().join("telegram-token").exists());
    until("the bot to be off", || Ok((!world.must(&["status"])?.contains("Telegram")).then_some(())))?;
    world.must(&["daemon", "stop"])?;
    Ok(())
}

#[test]
fn s5_a_no_and_a_wrong_token_change_nothing() -> Result<()> {
    let world = World::bare()?;
    let bot = Bot::start(&[HERS])?;
    let mut terminal = start(&world, &bot)?;
    terminal.wait_for(&["Paste the token"])?;
    terminal.keys(&format!("{}\r", TOKEN.replace("4242", "1")))?;
    terminal.wait_for(&["does not know this token"])?;
    let mut terminal = start(&world, &bot)?;
    terminal.wait_for(&["Paste the token"])?;
    terminal.keys(&format!("{TOKEN}\r"))?;
    let word = word(&terminal)?;
    bot.write(ANNA, HERS, &word, None);
    terminal.wait_for(&["(yes/no)"])?;
    terminal.keys("no\r")?;
    terminal.wait_for(&["nothing was changed"])?;
    assert!(!world.askd_dir().join("config.toml").exists());
    let ran = world.run(&["setup", "telegram"])?;
    assert_eq!(ran.code, 2, "{ran:?}");
    Ok(())
}

fn config_has(config: &std::path::Path, word: &str) -> Result<bool> {
    Ok(fs::read_to_string(config)?.contains(word))
}
