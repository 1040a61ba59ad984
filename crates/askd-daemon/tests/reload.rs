//! The config is edited while the daemon runs, and nobody asks for anything: only what the daemon says by itself counts.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failing step ends the test")]

mod common;

use std::fs;
use std::path::Path;

use askd_client::Events;
use askd_wire::StreamEvent;
use common::{World, answer, ask, post, raise, refusal};
use serde_json::json;

const CHANGED: &str = "the config was changed: it is in force for asks made from now on";

/// The stream of a person who does nothing.
fn watch(world: &World) -> Events {
    let mut events = world.person().events(None, None).unwrap();
    assert!(matches!(events.receive().unwrap().unwrap().event, StreamEvent::Snapshot { .. }));
    events
}

fn notice(events: &mut Events) -> String {
    loop {
        if let StreamEvent::Notice { text } = events.receive().unwrap().unwrap().event {
            return text;
        }
    }
}

fn timeout_of(secs: u32) -> String {
    format!("[permissions]\nbackground_timeout_secs = {secs}\n")
}

fn in_force(world: &World) -> u64 {
    world.person().permissions(None).unwrap().background.timeout_secs
}

fn replace(file: &Path, text: &str) {
    let new = file.with_file_name("config.toml.new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

#[test]
fn s2_an_edit_is_in_force_when_it_is_made_in_whatever_way_it_is_made() {
    let world = World::start();
    let file = world.config_path();
    let mut events = watch(&world);
    let mut seen = |what: &str, secs: u64| {
        assert_eq!(notice(&mut events), CHANGED, "{what}");
        assert_eq!(in_force(&world), secs, "{what}");
    };
    fs::write(&file, timeout_of(100)).unwrap();
    seen("written in place", 100);
    replace(&file, &timeout_of(101));
    seen("replaced", 101);
    fs::remove_file(&file).unwrap();
    seen("removed", 360);
    fs::write(&file, timeout_of(102)).unwrap();
    seen("made again", 102);
    fs::rename(&file, file.with_extension("old")).unwrap();
    seen("moved away", 360);
    fs::rename(file.with_extension("old"), &file).unwrap();
    seen("moved back", 102);

    let elsewhere = world.dir.path().join("dotfiles");
    fs::create_dir(&elsewhere).unwrap();
    let real = elsewhere.join("askd.toml");
    fs::write(&real, timeout_of(103)).unwrap();
    fs::remove_file(&file).unwrap();
    seen("removed again", 360);
    std::os::unix::fs::symlink(&real, &file).unwrap();
    seen("made a link", 103);
    fs::write(&real, timeout_of(104)).unwrap();
    seen("written behind the link", 104);
    replace(&real, &timeout_of(105));
    seen("replaced behind the link", 105);
    fs::rename(&elsewhere, world.dir.path().join("gone")).unwrap();
    seen("the directory behind the link moved away", 360);
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_file(&file).unwrap();
    fs::hard_link(world.dir.path().join("gone/askd.toml"), &file).unwrap();
    seen("a hard link", 105);
}

#[test]
fn s2_a_broken_edit_changes_nothing_and_is_told_and_a_loosening_one_waits() {
    let world = World::with_config(&timeout_of(100));
    let file = world.config_path();
    let mut events = watch(&world);
    for broken in ["[permissions]\nbackground_timeout_secs = 0\n", "[permissons]\n", "not toml"] {
        fs::write(&file, broken).unwrap();
        let text = notice(&mut events);
        assert!(
            text.starts_with("the config was changed and is not valid; the old settings stay:"),
            "{text}"
        );
        assert_eq!(in_force(&world), 100);
        let health = world.person().health().unwrap();
        assert!(health.notices[0].contains("is not valid"), "{:?}", health.notices);
    }
    fs::write(&file, timeout_of(100)).unwrap();
    assert_eq!(notice(&mut events), "the config is valid again");
    assert!(world.person().health().unwrap().notices.is_empty());

    // An open ask keeps what it was made with; what loosens waits for a person, also for the next one.
    let mut body = ask("k1", "ls");
    body["attendance"] = json!("background");
    let raised = raise(&mut world.requester(), &body);
    fs::write(&file, format!("{}background_default = \"allow\"\n", timeout_of(1000))).unwrap();
    let text = notice(&mut events);
    assert!(
        text.starts_with("permissions.background_default = allow waits until a person accepts"),
        "{text}"
    );
    assert_eq!(notice(&mut events), CHANGED);
    assert_eq!(world.show(&raised.id).deadline, raised.deadline);
    let permissions = world.person().permissions(None).unwrap();
    assert_eq!(permissions.background.timeout_secs, 1000);
    assert_eq!(serde_json::to_value(permissions.background.default).unwrap(), json!("deny"));
    let health = world.person().health().unwrap();
    assert_eq!((health.waiting_loosenings.len(), health.notices.len()), (1, 0), "told once");
    assert_eq!(
        health.warnings(),
        [
            "permissions.background_default = allow waits for you: askd config accept permissions.background_default \
             (in force: deny; background actions run when nobody answers)"
        ]
    );
    // What does not wait cannot be accepted.
    let other = json!({"key": "permissions.safety_default", "value": "allow"});
    let refused = post(&mut world.person_connection(), "/v1/config/accept", &other);
    assert_eq!(refusal(&refused), (400, "malformed".to_owned()));
    let deny = answer(&raised.digest, "deny");
    assert_eq!(
        post(&mut world.person_connection(), &format!("/v1/asks/{}/answer", raised.id), &deny).status,
        200
    );
}

#[test]
fn t7_what_was_changed_over_the_config_is_told_to_whoever_looks_later() {
    let world = World::start();
    assert!(world.person().health().unwrap().notices.is_empty());
    raise(&mut world.requester(), &ask("k1", "ls"));
    let mut person = world.person();
    person.permissions_command("/skip-permissions on", Some("script/s1")).unwrap();
    person.permissions_command("/permissions timeout 60 safety", None).unwrap();
    assert_eq!(
        person.health().unwrap().notices,
        [
            "override for every session until the daemon stops: safety timeout 1m0s",
            "session override for script/s1: skip-permissions on",
        ]
    );
    // Not for other requesters.
    let reply = world.requester().request("GET", "/healthz", None).unwrap();
    assert!(!String::from_utf8(reply.body).unwrap().contains("s1"));
}

/// Somebody else holds the journal, so that it takes no entries until this is dropped.
fn hold_journal(world: &World) -> rusqlite::Connection {
    let journal = rusqlite::Connection::open(world.places.state_dir().join("journal.sqlite")).unwrap();
    journal.busy_timeout(common::PATIENCE).unwrap();
    journal.execute_batch("BEGIN IMMEDIATE").unwrap();
    journal
}

fn people(ids: &[i64]) -> String {
    format!("[telegram]\nuser_ids = {ids:?}\n")
}

fn waits(world: &World) -> Vec<String> {
    let waiting = world.person().health().unwrap().waiting_loosenings;
    waiting.into_iter().map(|waits| waits.value).collect()
}

fn accept(world: &World, key: &str, value: &str) -> u16 {
    let body = json!({"key": key, "value": value});
    post(&mut world.person_connection(), "/v1/config/accept", &body).status
}

#[test]
fn s2_who_was_taken_out_while_the_journal_took_nothing_stays_out_until_accepted_anew() {
    let mut world = World::with_config(&people(&[11, 12]));
    for id in ["11", "12"] {
        assert_eq!(accept(&world, "telegram.user_ids", id), 204);
    }
    let file = world.config_path();
    let not_taken = || {
        let notices = world.person().health().unwrap().notices;
        notices.into_iter().find(|text| text.contains("the journal does not take that"))
    };
    for again_meanwhile in [true, false] {
        let held = hold_journal(&world);
        replace(&file, &people(&[11]));
        let text = world.until("it to be told", not_taken);
        assert!(text.contains("telegram.user_ids = 12") && !text.contains("= 11"), "{text}");
        if again_meanwhile {
            replace(&file, &people(&[11, 12]));
            world.until("12 to wait", || (waits(&world) == ["12"]).then_some(()));
            // A yes that cannot be written down is none.
            assert_eq!(accept(&world, "telegram.user_ids", "12"), 503);
            assert_eq!(waits(&world), ["12"]);
        }
        drop(held);
        world.until("it to be written down", || not_taken().is_none().then_some(()));
        replace(&file, &people(&[11, 12]));
        world.until("12 to wait", || (waits(&world) == ["12"]).then_some(()));
        assert_eq!(accept(&world, "telegram.user_ids", "12"), 204);
        assert!(waits(&world).is_empty());
    }
    // Written down for every later daemon too.
    world.leave("restart");
    world.up();
    assert!(waits(&world).is_empty());
    replace(&file, &people(&[11]));
    world.until("the edit", || world.person().health().ok());
    world.leave("restart");
    replace(&file, &people(&[11, 12]));
    world.up();
    assert_eq!(waits(&world), ["12"]);
}

#[test]
fn s2_a_token_that_nobody_accepted_is_never_told_to_who_uses_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut world = World::unstarted("");
    let token = world.dir.path().join("token");
    let half = "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1";
    fs::write(&token, format!("4242:{half}")).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let config = |chats: &[i64]| {
        format!("[telegram]\ntoken_file = \"{}\"\nchat_ids = {chats:?}\nuser_ids = [11]\n", token.display())
    };
    fs::write(world.config_path(), config(&[11, 12, 13])).unwrap();
    let (sender, told) = std::sync::mpsc::channel();
    let watch = move |now: &askd_daemon::InForce| {
        let token = now.token.as_ref().map(|token| token.expose().split(':').next().unwrap().to_owned());
        let _ = sender.send((token, now.settings.telegram.chat_ids.clone()));
    };
    world.up_with(Some(askd_daemon::SettingsWatch(std::sync::Arc::new(watch))));
    world.until("the token", || (waits(&world).len() == 5).then_some(()));
    for waits in world.person().health().unwrap().waiting_loosenings {
        assert_eq!(accept(&world, &waits.key, &waits.value), 204);
    }
    while told.recv().unwrap() != (Some("4242".to_owned()), vec![11, 12, 13]) {}

    let held = hold_journal(&world);
    fs::write(&token, format!("666:{half}")).unwrap();
    replace(&world.config_path(), &config(&[11]));
    // Those who were taken out are out at once, whatever the journal takes.
    let mut all = Vec::new();
    while all.last().is_none_or(|(_, chats)| *chats != [11]) {
        all.push(told.recv_timeout(common::PATIENCE).unwrap());
    }
    world.until("the other token to wait", || {
        waits(&world).iter().any(|value| value.starts_with("bot 666")).then_some(())
    });
    drop(held);
    let is_over = || world.person().health().unwrap().notices.is_empty().then_some(());
    world.until("all to be written down", is_over);
    world.leave("restart");
    all.extend(told.try_iter());
    assert!(!all.iter().any(|(token, _)| token.as_deref() == Some("666")), "{all:?}");
}
