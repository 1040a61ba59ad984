//! `askd setup telegram`, by a person at a terminal with a telephone beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use askd_tests::bot::{Bot, TOKEN};
use askd_tests::{Terminal, World, until};

use crate::scene::{ANNA, GROUP, HERS, MALLORY};

fn start(world: &World, bot: &Bot) -> Result<Terminal> {
    // The slash at its end is not part of the setting.
    let args = ["setup", "telegram", "--api-url", &format!("{}/", bot.url())];
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
    bot.ended(HERS, test.id, "askd was set up: asks come here.")?;
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
    terminal.keys(&format!("{}\r", TOKEN.replace("4242", "4243")))?;
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

#[test]
fn s5_setup_sends_no_token_to_an_address_that_the_settings_would_not_take() -> Result<()> {
    let world = World::bare()?;
    let bot = Bot::start(&[HERS])?;
    // What is there is another name for this machine, and would answer.
    let lookalike = bot.url().replace("127.0.0.1", "127.0.0.1.nip.example");
    for (flag, address) in
        [("--api-url", lookalike.as_str()), ("--api-url", "http://192.0.2.1:8081"), ("--proxy", "localhost")]
    {
        let args = ["setup", "telegram", flag, address];
        let mut terminal = Terminal::run(world.askd(), &args, world.env(), &world.home())?;
        terminal.wait_for(&["allowed:", "nothing was sent and nothing was changed"])?;
        terminal.keys(&format!("{TOKEN}\r"))?;
    }
    for method in ["getMe", "getUpdates"] {
        assert!(bot.calls(method).is_empty());
    }
    assert!(!world.askd_dir().join("config.toml").exists());
    Ok(())
}

#[test]
fn s5_setup_beside_a_config_that_is_not_valid_names_it_and_changes_nothing() -> Result<()> {
    let world = World::bare()?;
    let bot = Bot::start(&[HERS])?;
    let config = world.askd_dir().join("config.toml");
    let broken = "[permissions]\nqueue_cap = \"many\"\n";
    fs::write(&config, broken)?;
    let terminal = start(&world, &bot)?;
    terminal.wait_for(&["config.toml:2", "put it right first; nothing was changed"])?;
    assert!(!terminal.text().contains("Paste the token"));
    assert_eq!(fs::read_to_string(&config)?, broken);
    Ok(())
}

#[test]
fn an_interrupt_while_the_token_is_typed_leaves_a_terminal_that_shows_what_is_typed() -> Result<()> {
    let world = World::bare()?;
    let bot = Bot::start(&[HERS])?;
    let script = format!(
        "trap : INT; '{}' setup telegram --api-url {}; echo \"ended with $?\"; stty -a; echo done",
        world.askd().display(),
        bot.url()
    );
    let shell = std::path::Path::new("/bin/sh");
    let mut terminal = Terminal::run(shell, &["-c", &script], world.env(), &world.home())?;
    terminal.wait_for(&["Paste the token"])?;
    // Once what is typed is not shown, the prompt is really there.
    terminal.keys("123\r")?;
    // The second time as the first.
    terminal.wait_for(&["not a bot token"])?;
    until("the second prompt", || {
        Ok((terminal.text().matches("Paste the token").count() == 2).then_some(()))
    })?;
    terminal.keys("456\u{3}")?;
    terminal.wait_for(&["stopped; nothing was changed", "ended with 130", "done"])?;
    let text = terminal.text();
    assert!(text.contains(" echo ") && !text.contains("-echo ") && !text.contains("456"), "{text}");

    // Afterwards an interrupt is one.
    let mut terminal = Terminal::run(shell, &["-c", &script], world.env(), &world.home())?;
    terminal.wait_for(&["Paste the token"])?;
    terminal.keys(&format!("{TOKEN}\r"))?;
    word(&terminal)?;
    terminal.keys("\u{3}")?;
    terminal.wait_for(&["ended with 130", "done"])?;
    assert!(!world.askd_dir().join("config.toml").exists());
    Ok(())
}

#[test]
fn s5_setup_in_a_group_hears_the_one_who_wrote_the_word_and_a_dry_run_writes_nothing() -> Result<()> {
    let world = World::bare()?;
    let bot = Bot::start(&[GROUP])?;
    let args = ["setup", "telegram", "--dry-run", "--api-url", &bot.url()];
    let mut terminal = Terminal::run(world.askd(), &args, world.env(), &world.home())?;
    terminal.wait_for(&["Paste the token"])?;
    terminal.keys(&format!("{TOKEN}\r"))?;
    let word = word(&terminal)?;
    bot.write(MALLORY, GROUP, "/start@askd_test_bot askd-000000", None);
    bot.write(ANNA, GROUP, &format!("/start@askd_test_bot {word}"), None);
    terminal.wait_for(&["Anna (user 11) wrote it in a supergroup (chat -100500)", "(yes/no)"])?;
    terminal.keys("yes\r")?;
    let test = bot.wait(GROUP, "the test message", |shown| shown.text.contains("This is a test"))?;
    // Whoever taps first is not who was found.
    bot.tap(MALLORY, GROUP, &test, "It works")?;
    bot.all_confirmed()?;
    assert!(!terminal.text().contains("would be"));
    bot.tap(ANNA, GROUP, &test, "It works")?;
    terminal.wait_for(&["would be:", "chat_ids = [-100500]", "user_ids = [11]"])?;
    bot.ended(GROUP, test.id, "It works.")?;
    assert!(!world.askd_dir().join("config.toml").exists());
    assert!(!world.askd_dir().join("telegram-token").exists());
    Ok(())
}

fn config_has(config: &std::path::Path, word: &str) -> Result<bool> {
    Ok(fs::read_to_string(config)?.contains(word))
}
