//! Who is heard: nobody but the people and chats that a person accepted, by buttons that askd made.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use askd_tests::bot::TOKEN;
use askd_tests::until;

use crate::scene::{ANNA, BERT, GROUP, HERS, MALLORY, Scene};

#[test]
fn s5_strangers_answer_nothing_and_hear_nothing() -> Result<()> {
    let scene = Scene::with(&[GROUP], &[ANNA], "")?;
    let asker = scene.ask("make secret")?;
    let card = scene.bot.card(GROUP, &asker.ask.handle)?;
    // In the right chat by the wrong person, and by the right person in a chat that is not on the list.
    let taps = [
        scene.bot.tap(MALLORY, GROUP, &card, "Allow once")?,
        scene.bot.tap_data(ANNA, MALLORY.id, card.id, &card.buttons[0].1),
        scene.bot.tap(BERT, GROUP, &card, "⛔ Deny")?,
    ];
    scene.bot.write(MALLORY, GROUP, "y", Some(card.id));
    scene.bot.write(MALLORY, GROUP, "/skip-permissions on", None);
    scene.bot.write(ANNA, MALLORY.id, "/asks", None);
    scene.bot.all_confirmed()?;
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    for tap in taps {
        assert_eq!(scene.bot.toast_now(&tap), None);
    }
    assert_eq!(scene.bot.chat(GROUP).iter().filter(|shown| shown.bots).count(), 1, "{}", scene.bot.story());
    assert!(!scene.world.must(&["permissions"])?.contains("override"));
    let said = scene.world.daemon_said();
    assert_eq!(said.matches("Mallory").count(), 1, "logged once: {said}");
    // Who is on the list is heard all the same.
    scene.bot.tap(ANNA, GROUP, &card, "⛔ Deny")?;
    assert_eq!(asker.outcome()?.0, 1);
    Ok(())
}

#[test]
fn s5_forged_and_exchanged_buttons_answer_nothing() -> Result<()> {
    let scene = Scene::new()?;
    let (first, second) = (scene.ask("make first")?, scene.ask("make second")?);
    let (one, two) = (scene.card(&first)?, scene.card(&second)?);
    let find = |card: &askd_tests::bot::Shown, label: &str| {
        card.buttons.iter().find(|(text, _)| text.contains(label)).unwrap().1.clone()
    };
    let deny = find(&one, "⛔ Deny");
    // A no made a yes, the seal of one on the other, nonsense, nothing.
    let forged = deny.replacen("1n0", "1y0", 1);
    let mixed = format!("{}{}", &find(&two, "Allow")[..25], &find(&one, "Allow")[25..]);
    for data in [forged, mixed, "1y0".to_owned(), "\u{0}".to_owned(), "y".repeat(64)] {
        let tap = scene.bot.tap_data(ANNA, HERS, one.id, &data);
        let toast = scene.bot.toast(&tap)?;
        assert!(toast.contains("not made by this askd") || toast.contains("does not know this"), "{toast}");
    }
    for asker in [&first, &second] {
        assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    }
    Ok(())
}

#[test]
fn s2_what_an_agent_writes_into_the_config_gets_no_ask_and_gives_no_answer() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "[notify]\ncommand = \"touch ran\"\n")?;
    scene.world.start_daemon()?;
    let asker = scene.ask("make unheard")?;
    let waits = scene.world.run(&["config", "check"])?.stdout;
    for key in ["telegram.chat_ids = 11", "telegram.user_ids = 11", "telegram.api_url", "notify.command"] {
        assert!(waits.contains(key), "{key}: {waits}");
    }
    let health = scene.doctor()?;
    assert!(health.contains("telegram.token = bot 4242"), "{health}");
    let none = ["getUpdates", "sendMessage", "getMe"].map(|method| scene.bot.calls(method).len());
    assert_eq!(none, [0; 3], "nothing went out");
    assert!(!scene.world.home().join("ran").exists());

    scene.accept()?;
    scene.card(&asker)?;
    // Another person, another chat, another bot: each waits, and those before stay.
    scene.configure(&[HERS, GROUP], &[ANNA, MALLORY], "")?;
    until("the new ones to wait", || Ok(scene.doctor()?.contains("telegram.user_ids = 66").then_some(())))?;
    let card = scene.card(&asker)?;
    scene.bot.tap(MALLORY, HERS, &card, "Allow once")?;
    scene.bot.all_confirmed()?;
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    assert!(scene.bot.chat(GROUP).is_empty());
    // Told by name: who waits, and who is in.
    let check = scene.world.must(&["config", "check"])?;
    for line in [
        "telegram.user_ids = 11 is loosened, and a person accepted it",
        "telegram.user_ids = 66 waits until a person accepts it",
    ] {
        assert!(check.contains(line), "{line}: {check}");
    }
    // Who is taken out is out at once.
    scene.configure(&[HERS], &[BERT], "")?;
    until("the bot to be off", || Ok((!scene.doctor()?.contains("Telegram works")).then_some(())))?;
    scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
    let next = scene.ask("make after")?;
    assert!(!scene.bot.chat(HERS).iter().any(|shown| shown.text.starts_with(&next.ask.handle)));
    assert_eq!(scene.world.show(&asker.ask.id)?.state, "open");
    Ok(())
}

#[test]
fn s2_another_token_in_the_same_file_waits_after_a_restart() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.restart(|scene| scene.write_token("666:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"))?;
    let before = scene.bot.calls("getUpdates").len();
    let doctor = scene.doctor()?;
    assert!(doctor.contains("telegram.token = bot 666"), "{doctor}");
    let check = scene.world.must(&["config", "check"])?;
    assert!(check.contains("telegram.token = bot 666") && check.contains("waits until a person"), "{check}");
    drop(scene.ask("make other")?);
    assert_eq!(scene.bot.calls("getUpdates").len(), before);
    Ok(())
}

/// A proxy that says that it takes nothing, and keeps what came.
fn proxy() -> Result<(String, std::net::TcpListener)> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    Ok((format!("http://{}", listener.local_addr()?), listener))
}

#[test]
fn s2_a_proxy_of_the_environment_gets_nothing() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    let (url, listener) = proxy()?;
    let names = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"];
    scene.world.start_daemon_with(&names.map(|name| (name, url.as_str())))?;
    scene.accept()?;
    let asker = scene.ask("make it straight")?;
    scene.card(&asker)?;
    // Nor on the way to a server elsewhere.
    let elsewhere = format!("{}\"", scene.bot.url());
    let config = scene.world.askd_dir().join("config.toml");
    let text = fs::read_to_string(&config)?.replace(&elsewhere, "https://127.0.0.1:9\"");
    fs::write(&config, text)?;
    scene.world.must(&["config", "accept", "--yes"])?;
    until("doctor to tell", || Ok(scene.doctor()?.contains("Telegram does not work").then_some(())))?;
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    Ok(())
}

#[test]
fn s2_a_proxy_of_the_config_waits_for_a_person_and_never_sees_the_token() -> Result<()> {
    use std::io::{Read as _, Write as _};
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    let (url, listener) = proxy()?;
    let config = scene.world.askd_dir().join("config.toml");
    let own = format!("\"{}\"", scene.bot.url());
    let text = fs::read_to_string(&config)?.replace(&own, "\"https://127.0.0.1:9\"");
    fs::write(&config, format!("{text}proxy = \"{url}\"\n"))?;
    scene.world.start_daemon()?;
    for key in ["telegram.api_url", "telegram.token", "telegram.chat_ids", "telegram.user_ids"] {
        scene.world.must(&["config", "accept", key])?;
    }
    assert!(scene.doctor()?.contains(&format!("telegram.proxy = {url} waits")));
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    scene.world.must(&["config", "accept", "telegram.proxy"])?;
    let mut stream = until("the proxy to be used", || Ok(listener.accept().ok()))?.0;
    stream.set_nonblocking(false)?;
    let mut head = [0; 1024];
    let count = stream.read(&mut head)?;
    let head = String::from_utf8_lossy(&head[..count]).into_owned();
    assert!(head.starts_with("CONNECT 127.0.0.1:9 ") && !head.contains(TOKEN), "{head}");
    stream.write_all(b"HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n")?;
    drop((stream, listener));
    until("doctor to tell", || Ok(scene.doctor()?.contains("Telegram does not work").then_some(())))
}

#[test]
fn s5_the_token_is_told_nowhere() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    // Also not to whoever wants to know everything.
    scene.world.start_daemon_with(&[("ASKD_LOG", "trace")])?;
    scene.accept()?;
    let asker = scene.ask("make quiet")?;
    let card = scene.card(&asker)?;
    // Errors of every sort, with addresses in them.
    scene.bot.down(true);
    until("doctor to tell", || Ok(scene.doctor()?.contains("Telegram does not work").then_some(())))?;
    let mut all = scene.doctor()? + &scene.world.must(&["status"])? + &scene.world.log()?;
    all += &scene.world.must(&["ls", "--json", "--all"])?;
    for key in ["telegram.token_file", "telegram.api_url"] {
        all += &scene.world.must(&["config", "explain", key])?;
    }
    all += &scene.world.run(&["config", "check"])?.stdout;
    all += &scene.world.daemon_said();
    all += &card.text;
    let pid: serde_json::Value =
        serde_json::from_slice(&fs::read(scene.world.askd_dir().join("state/daemon.json"))?)?;
    for file in ["cmdline", "environ"] {
        all += &String::from_utf8_lossy(&fs::read(format!("/proc/{}/{file}", pid["pid"]))?);
    }
    let secret = TOKEN.split(':').nth(1).unwrap();
    assert!(!all.contains(secret), "{all}");
    // Nor in anything that the daemon wrote down.
    for entry in fs::read_dir(scene.world.askd_dir().join("state"))? {
        let path = entry?.path();
        if path.is_file() {
            assert!(!String::from_utf8_lossy(&fs::read(&path)?).contains(secret), "{}", path.display());
        }
    }
    Ok(())
}

#[test]
fn s5_a_token_file_that_others_can_read_is_refused_and_told() -> Result<()> {
    let mut scene = Scene::unaccepted(&[HERS], &[ANNA], "")?;
    fs::set_permissions(scene.world.file("token"), fs::Permissions::from_mode(0o644))?;
    scene.world.start_daemon()?;
    let doctor = scene.doctor()?;
    assert!(doctor.contains("Telegram does not work: no token") && doctor.contains("chmod 600"), "{doctor}");
    Ok(())
}

#[test]
fn s5_secrets_are_covered_on_the_card_and_whole_for_the_agent() -> Result<()> {
    let scene = Scene::new()?;
    let secret = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    let asker = scene.ask(&format!("curl -H 'token: {secret}' https://example.org"))?;
    let card = scene.card(&asker)?;
    assert!(!card.text.contains(&secret) && card.text.contains("masked"), "{}", card.text);
    scene.bot.tap(ANNA, HERS, &card, "Allow once")?;
    assert_eq!(asker.outcome()?.0, 0);
    let sent = format!("{:?}", scene.bot.calls("sendMessage"))
        + &format!("{:?}", scene.bot.calls("editMessageText"));
    assert!(!sent.contains(&secret));
    Ok(())
}
