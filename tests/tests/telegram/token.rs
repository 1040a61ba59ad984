//! A bot's token that is not there, not yet, or not any more: nothing waits for it, nothing is lost, and it is told.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use askd_tests::bot::TOKEN;
use askd_tests::{alive, children, until};
use serde_json::Value;

use crate::scene::{ANNA, HERS, Scene};

/// The config of [`Scene::new`] with another way to the token.
fn by(scene: &Scene, way: &str) -> Result<()> {
    let config = format!(
        "[telegram]\n{way}\nchat_ids = [{HERS}]\nuser_ids = [{}]\napi_url = \"{}\"\n\
         [permissions]\nunreachable = \"when_none_attached\"\n",
        ANNA.id,
        scene.bot.url()
    );
    Ok(fs::write(scene.world.askd_dir().join("config.toml"), config)?)
}

fn nothing_waits(scene: &Scene) -> Result<()> {
    let (doctor, status) = (scene.doctor()?, scene.world.must(&["status"])?);
    assert!(
        !doctor.contains("waits for a person") && !status.contains("settings wait"),
        "{doctor}\n{status}"
    );
    Ok(())
}

type Break = fn(&Path) -> std::io::Result<()>;

#[test]
fn s2_a_token_that_cannot_be_read_for_a_while_stays_accepted() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    by(&scene, &format!("token_file = \"{}\"", scene.world.file("token").display()))?;
    scene.world.start_daemon()?;
    scene.accept()?;
    let token = scene.world.file("token");
    // A start at which others can read it, one at which it is not there, and one with something else in it.
    let breaks: [(&str, Break); 3] = [
        ("chmod 600", |token| fs::set_permissions(token, Permissions::from_mode(0o644))),
        ("cannot be read", |token| fs::remove_file(token)),
        ("is not a bot token", |token| fs::write(token, "later")),
    ];
    for (why, broken) in breaks {
        scene.restart(|_| Ok(broken(&token)?))?;
        let doctor = scene.doctor()?;
        assert!(doctor.contains("Telegram does not work: no token for") && doctor.contains(why), "{doctor}");
        let status = scene.world.must(&["status"])?;
        assert!(status.contains("Telegram does not work: no token for"), "{status}");
        nothing_waits(&scene)?;
        let polls = scene.bot.calls("getUpdates").len();
        // The place where a person could answer is there, and comes back: nobody is denied for want of one.
        let command = format!("make it without {}", why.replace(' ', "-"));
        let asker = scene.ask(&command)?;
        assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
        assert_eq!(scene.bot.calls("getUpdates").len(), polls, "nothing goes out meanwhile");
        // It is put right, and nobody says so to askd.
        scene.write_token(TOKEN)?;
        let card = scene.card(&asker)?;
        scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
        assert_eq!(asker.outcome()?.0, 0);
        nothing_waits(&scene)?;
        assert!(scene.doctor()?.contains("Telegram works"));
    }
    Ok(())
}

#[test]
fn t2_a_token_that_cannot_be_read_is_nobodys_answer() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.restart(|scene| Ok(fs::remove_file(scene.world.file("token"))?))?;
    let asker = scene.background("make nothing of it", 3)?;
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["cause"]), (1, &"timed".into()), "{outcome}");
    Ok(())
}

/// A token that comes when it is given, by a command that waits for it.
fn held(scene: &Scene) -> Result<PathBuf> {
    let source = scene.world.file("source");
    fs::write(&source, TOKEN)?;
    let pids = scene.world.file("pids");
    by(scene, &format!("token_cmd = \"echo $$ >> {}; cat {} | cat\"", pids.display(), source.display()))?;
    Ok(source)
}

fn hold(source: &Path) -> Result<()> {
    fs::remove_file(source)?;
    rustix::fs::mkfifoat(rustix::fs::CWD, source, rustix::fs::Mode::from_raw_mode(0o600))?;
    Ok(())
}

#[test]
fn s2_a_token_command_that_hangs_delays_no_ask_and_loses_nothing() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    let source = held(&scene)?;
    scene.world.start_daemon()?;
    // One call accepts the command and then the token that it gives.
    scene.accept()?;
    scene.restart(|_| hold(&source))?;
    let asker = scene.ask("make haste")?;
    let status = scene.world.must(&["status"])?;
    assert!(status.contains("1 waiting") && status.contains("Telegram begins"), "{status}");
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    // The command has waited all the time: had the daemon waited for it, it would be gone by now.
    let nobody_reads = "nobody waits for the token any more";
    let opened = OpenOptions::new().write(true).custom_flags(libc_nonblock()).open(&source);
    opened.context(nobody_reads)?.write_all(TOKEN.as_bytes())?;
    let card = scene.card(&asker)?;
    scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
    assert_eq!(asker.outcome()?.0, 1);
    nothing_waits(&scene)
}

fn libc_nonblock() -> i32 {
    i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default()
}

#[test]
fn a_daemon_that_stops_ends_the_command_that_it_waits_for() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    let source = held(&scene)?;
    scene.world.start_daemon()?;
    scene.accept()?;
    let pids = scene.world.file("pids");
    scene.restart(|_| {
        fs::write(&pids, "")?;
        hold(&source)
    })?;
    let pid: u32 = until("the command to run", || {
        Ok(fs::read_to_string(&pids)?.lines().next().and_then(|line| line.parse().ok()))
    })?;
    until("its pipeline to run", || Ok((children(pid).len() == 2).then_some(())))?;
    let all: Vec<u32> = children(pid).into_iter().map(|(pid, _)| pid).chain([pid]).collect();
    scene.world.must(&["daemon", "stop"])?;
    until("all of it to end", || Ok((!all.iter().any(|pid| alive(*pid))).then_some(())))
}

#[test]
fn s2_a_token_in_the_environment_counts_for_a_daemon_that_a_person_starts_and_stays_accepted() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    by(&scene, "token_env = \"MY_BOT\"")?;
    scene.world.start_daemon_with(&[("MY_BOT", TOKEN)])?;
    scene.accept()?;
    scene.world.kill_daemon()?;
    // A requester starts the next one. Whatever it has in its environment is not a person's word.
    let raise = |command: &str| -> Result<Value> {
        let mut asker = scene.raise(command, &[])?;
        let ran = asker.env("MY_BOT", TOKEN.replace("4242", "666")).output()?;
        Ok(serde_json::from_slice(&ran.stdout)?)
    };
    // Such a token never comes, and nobody is attached: nobody waits for an answer that cannot be given.
    for command in ["make one that starts it", "make one more"] {
        assert_eq!(raise(command)?["cause"], "unreachable");
    }
    let doctor = scene.doctor()?;
    assert!(doctor.contains("no token for") && doctor.contains("run `askd daemon` yourself"), "{doctor}");
    nothing_waits(&scene)?;
    assert_eq!(raise("make a third")?["cause"], "unreachable");
    scene.world.must(&["daemon", "stop"])?;

    scene.world.start_daemon_with(&[("MY_BOT", TOKEN)])?;
    let asker = scene.ask("make two")?;
    scene.card(&asker)?;
    nothing_waits(&scene)
}

#[test]
fn t10_a_decline_that_waits_counts_also_when_the_token_takes_longer_than_the_usual_hold() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    let (source, pause) = (scene.world.file("source"), scene.world.file("pause"));
    fs::write(&source, TOKEN)?;
    fs::write(&pause, "0")?;
    by(&scene, &format!("token_cmd = \"sleep $(cat {}); cat {}\"", pause.display(), source.display()))?;
    let config = scene.world.askd_dir().join("config.toml");
    let text = fs::read_to_string(&config)? + "background_default = \"allow\"\nbackground_timeout_secs = 1\n";
    fs::write(&config, text)?;
    scene.world.start_daemon()?;
    scene.accept()?;
    // The deadline is over by the time that the token is there.
    let asker = scene.background("make it late", 8)?;
    let card = scene.card(&asker)?;
    scene.restart(|scene| {
        scene.bot.tap(ANNA, HERS, &card, "⛔ Deny")?;
        Ok(fs::write(&pause, "11")?)
    })?;
    let (code, outcome) = asker.outcome()?;
    assert_eq!((code, &outcome["cause"]), (1, &"person".into()), "{outcome}");
    Ok(())
}
