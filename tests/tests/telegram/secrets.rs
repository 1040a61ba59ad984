//! A token in the wrong place: askd tells it to nobody and keeps it nowhere, whatever it says of that place.

use std::fs;
use std::path::Path;

use anyhow::Result;
use askd_tests::{World, until};

/// The second half is the secret.
const BOT: &str = "7312456890";
const HALF: &str = "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1";

/// What every command says that has to do with settings.
fn said(world: &World) -> Result<String> {
    let mut all = String::new();
    let mut run = |args: &[&str]| -> Result<()> {
        let ran = world.run(args)?;
        all += &format!("{args:?}: {}{}\n", ran.stdout, ran.stderr);
        Ok(())
    };
    for key in
        ["token_file", "token_env", "token_cmd", "chat_ids", "user_ids", "max_open", "api_url", "proxy"]
    {
        run(&["config", "explain", &format!("telegram.{key}")])?;
    }
    run(&["config", "explain", "notify.command"])?;
    run(&["config", "check"])?;
    run(&["doctor"])?;
    run(&["status"])?;
    run(&["permissions"])?;
    run(&["config", "accept", "--yes"])?;
    run(&["config", "check"])?;
    run(&["doctor"])?;
    run(&["log", "--json"])?;
    Ok(all)
}

/// Every file of askd but the config itself.
fn kept(dir: &Path) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(kept(&path)?);
        } else if path.is_file() && path.file_name().is_some_and(|name| name != "config.toml") {
            all.extend(fs::read(path)?);
        }
    }
    Ok(all)
}

fn has(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[test]
fn s5_a_token_in_the_wrong_place_is_told_nowhere_and_kept_nowhere() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let token = format!("{BOT}:{HALF}");
    let telegram = |line: &str| format!("[telegram]\n{line}\n");
    let configs = [
        // Where something else belongs.
        telegram(&format!("token_env = \"{token}\"")),
        telegram(&format!("token_env = \"{HALF}\"")),
        telegram(&format!("token_file = \"{token}\"")),
        telegram(&format!("token_file = \"{HALF}\"")),
        telegram(&format!("chat_ids = \"{token}\"")),
        telegram(&format!("user_ids = [\"{token}\"]")),
        telegram(&format!("max_open = \"{token}\"")),
        telegram(&format!("proxy = \"{token}\"")),
        telegram(&format!("proxy = \"http://{token}@127.0.0.1:1\"")),
        telegram(&format!("api_url = \"{token}\"")),
        telegram(&format!("api_url = \"http://api.telegram.org/bot{token}\"")),
        // Names that are none.
        telegram(&format!("token = \"{token}\"")),
        telegram(&format!("bot = \"{HALF}\"")),
        telegram(&format!("\"{token}\" = true")),
        format!("telegram = \"{token}\"\n"),
        format!("bot = \"{token}\"\n"),
        format!("[\"{token}\"]\n"),
        // No TOML.
        telegram(&format!("token_file = {token}")),
        telegram(&format!("token_file = \"{token}")),
        telegram(&token),
        telegram(&format!("api_url = \"https://127.0.0.1:1/bot{token}\"")),
        // All of these are taken.
        telegram(&format!("token_cmd = \"echo {token}\"")),
        telegram(&format!("token_file = \"/nowhere/{token}\"")),
        // A half by itself, and a token that is put together only when it is used.
        telegram(&format!("proxy = \"{HALF}\"")),
        telegram(&format!("chat_ids = \"{HALF}\"")),
        telegram(&format!("max_open = \"{HALF}\"")),
        telegram(&format!("{HALF} = 1")),
        telegram(&format!("api_url = \"https://127.0.0.1:1/bot{BOT}%3A{HALF}\"")),
        telegram(&format!("token_cmd = \"printf {BOT}:%s {HALF}\"")),
        telegram(&format!("token_cmd = \"echo {BOT}:'{HALF}'\"")),
        format!("[notify]\ncommand = \"true '{BOT}:' {HALF}\"\n"),
        format!("[notify]\ncommand = \"echo https://api.telegram.org/bot{token}/sendMessage\"\n"),
    ];
    for config in &configs {
        fs::write(world.askd_dir().join("config.toml"), config)?;
        let said = said(&world)?;
        assert!(!said.contains(HALF), "{config}\n{said}");
    }
    // The same by the environment, and for a daemon that starts on it.
    world.must(&["daemon", "stop"])?;
    for config in &configs {
        fs::write(world.askd_dir().join("config.toml"), config)?;
        let mut command = world.command(&["config", "check"]);
        let ran = command.env("ASKD_TELEGRAM__TOKEN_ENV", &token).env("ASKD_TELEGRAM__BOT", HALF).output()?;
        let said = [ran.stdout, ran.stderr].concat();
        assert!(!has(&said, HALF), "{config}\n{}", String::from_utf8_lossy(&said));
    }
    fs::write(world.askd_dir().join("config.toml"), &configs[0])?;
    let ran = world.run(&["daemon"])?;
    assert!(ran.stderr.contains("telegram.token_env") && !ran.stderr.contains(HALF), "{ran:?}");
    assert!(!world.daemon_said().contains(HALF), "{}", world.daemon_said());
    assert!(!has(&kept(&world.askd_dir())?, HALF));
    Ok(())
}

#[test]
fn s2_a_command_with_a_token_in_it_is_accepted_as_it_is_and_no_other() -> Result<()> {
    let mut world = World::bare()?;
    world.start_daemon()?;
    let config = world.askd_dir().join("config.toml");
    let by = |half: &str| format!("[notify]\ncommand = \"true {BOT}:{half}\"\n");
    fs::write(&config, by(HALF))?;
    let said = world.must(&["config", "accept", "--yes"])?;
    assert!(said.contains("notify.command = true 7312456890:(35 masked) (with its secret: "), "{said}");
    until("nothing to wait", || Ok((!world.must(&["status"])?.contains("settings wait")).then_some(())))?;
    fs::write(&config, by(&HALF.replace("sa", "as")))?;
    until("the other to wait", || Ok(world.must(&["status"])?.contains("settings wait").then_some(())))
}
