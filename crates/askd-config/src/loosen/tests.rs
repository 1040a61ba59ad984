//! What loosens waits, and what tightens does not.

use super::*;

fn settings(default: TimedDefault, secs: u64) -> Settings {
    let mut settings = Settings::default();
    settings.permissions.background_default = default;
    settings.permissions.background_timeout_secs = secs;
    settings
}

fn accepted(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

const DEFAULT: &str = "permissions.background_default";
const TIMEOUT: &str = "permissions.background_timeout_secs";

#[test]
fn every_rule_names_a_key_and_tightens_what_it_finds_loose() {
    let tight = Settings::default();
    assert_eq!(loosenings(&tight), []);
    let mut loose = settings(TimedDefault::Allow, 1);
    loose.permissions.safety_default = TimedDefault::Allow;
    loose.permissions.safety_timeout_secs = 1;
    loose.permissions.dangerously_skip_permissions = true;
    loose.remote = crate::Remote { timeout_secs: 1, timeout_action: TimedDefault::Allow };
    loose.notify.command = "notify-send".to_owned();
    loose.telegram = crate::Telegram {
        token_cmd: "pass".to_owned(),
        api_url: "http://127.0.0.1:1".to_owned(),
        proxy: "http://127.0.0.1:2".to_owned(),
        chat_ids: vec![1],
        user_ids: vec![2],
        token: Some("bot 1 (0)".to_owned()),
        ..crate::Telegram::default()
    };
    assert_eq!(loosenings(&loose).len(), RULES.len() + 3);
    let found = effective(&loose, &BTreeSet::new());
    assert_eq!(found.settings, tight);
    assert_eq!(found.waiting, loosenings(&loose));
}

#[test]
fn s2_a_default_of_allow_waits_until_it_was_accepted() {
    let set = settings(TimedDefault::Allow, 360);
    let before = effective(&set, &BTreeSet::new());
    assert_eq!(before.settings, Settings::default());
    assert_eq!(before.waiting.len(), 1);
    assert_eq!(before.waiting[0].pair(), (DEFAULT.to_owned(), "allow".to_owned()));
    assert_eq!(before.waiting[0].tight_value, "deny");
    let after = effective(&set, &before.waiting.iter().map(Loosening::pair).collect());
    assert_eq!((after.settings, after.waiting), (set, vec![]));
}

#[test]
fn s2_an_accepted_allow_cannot_be_hurried() {
    let allow = accepted(&[(DEFAULT, "allow")]);
    let hurried = effective(&settings(TimedDefault::Allow, 1), &allow);
    assert_eq!(hurried.settings, settings(TimedDefault::Allow, 360));
    assert_eq!(hurried.waiting[0].pair(), (TIMEOUT.to_owned(), "1".to_owned()));
    let both = accepted(&[(DEFAULT, "allow"), (TIMEOUT, "1")]);
    assert_eq!(
        effective(&settings(TimedDefault::Allow, 1), &both).settings,
        settings(TimedDefault::Allow, 1)
    );
    // Another hurry is another question.
    assert_eq!(effective(&settings(TimedDefault::Allow, 2), &both).waiting.len(), 1);
}

#[test]
fn s2_tightening_is_in_force_at_once() {
    let mut set = settings(TimedDefault::Deny, 1);
    set.permissions.unreachable = crate::Unreachable::WhenNoneAttached;
    set.permissions.late_answer_secs = 0;
    let found = effective(&set, &BTreeSet::new());
    assert_eq!((found.settings, found.waiting), (set, vec![]));
}

#[test]
fn s2_an_acceptance_ends_with_what_it_was_for() {
    let found = effective(&Settings::default(), &accepted(&[(DEFAULT, "allow")]));
    assert_eq!(found.obsolete, accepted(&[(DEFAULT, "allow")]));
    let found = effective(&settings(TimedDefault::Allow, 360), &accepted(&[(DEFAULT, "allow")]));
    assert_eq!(found.obsolete, BTreeSet::new());
}

#[test]
fn s2_one_allow_does_not_touch_safety() {
    let mut set = settings(TimedDefault::Allow, 360);
    set.permissions.safety_default = TimedDefault::Allow;
    let found = effective(&set, &accepted(&[(DEFAULT, "allow")]));
    assert_eq!(found.settings.permissions.safety_default, TimedDefault::Deny);
    assert_eq!(found.settings.permissions.background_default, TimedDefault::Allow);
}

#[test]
fn s2_each_chat_person_and_token_waits_for_itself_and_goes_at_once() {
    let mut set = Settings::default();
    set.telegram.chat_ids = vec![10, 11];
    set.telegram.user_ids = vec![7];
    set.telegram.token_file = "/t".to_owned();
    set.telegram.token = Some("bot 1 (aa)".to_owned());
    let some = accepted(&[("telegram.chat_ids", "10"), ("telegram.user_ids", "7")]);
    let found = effective(&set, &some);
    assert_eq!(found.settings.telegram.chat_ids, [10]);
    assert!(!found.settings.telegram.is_complete());
    let waits: Vec<_> = found.waiting.iter().map(|w| (w.key, w.value.as_str())).collect();
    assert_eq!(waits, [("telegram.chat_ids", "11"), (TOKEN, "bot 1 (aa)")]);
    let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
    assert_eq!(effective(&set, &all).settings, set);
    // Another token, be it in the same file, is another question; who is taken out is forgotten.
    set.telegram.token = Some("bot 1 (bb)".to_owned());
    set.telegram.chat_ids = vec![11];
    let found = effective(&set, &all);
    assert_eq!(found.settings.telegram.token, None);
    assert_eq!(found.settings.telegram.chat_ids, [11]);
    assert_eq!(found.obsolete, accepted(&[("telegram.chat_ids", "10"), (TOKEN, "bot 1 (aa)")]));
}

#[test]
fn s2_a_token_that_cannot_be_read_is_not_in_force_and_stays_accepted() {
    let mut set = Settings::default();
    set.telegram.chat_ids = vec![10];
    set.telegram.user_ids = vec![7];
    set.telegram.token_cmd = "pass".to_owned();
    set.telegram.token = Some("bot 1 (aa)".to_owned());
    let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
    set.telegram.token = None;
    let found = effective(&set, &all);
    assert_eq!(found.obsolete, BTreeSet::new());
    assert!(found.awaits_token && !found.settings.telegram.is_complete());
    // Nothing is awaited of a command that was not accepted, nor for nobody; the token stays accepted.
    for change in [
        |set: &mut Settings| set.telegram.token_cmd = "evil".to_owned(),
        |set: &mut Settings| set.telegram.user_ids.clear(),
        |set: &mut Settings| set.telegram.api_url = "https://evil.example".to_owned(),
    ] {
        let mut set = set.clone();
        change(&mut set);
        let found = effective(&set, &all);
        assert!(!found.awaits_token);
        assert!(!found.obsolete.iter().any(|(key, _)| key == TOKEN), "{:?}", found.obsolete);
    }
    // No way at all: it is not wanted any more.
    set.telegram.token_cmd.clear();
    let found = effective(&set, &all);
    assert!(found.obsolete.contains(&(TOKEN.to_owned(), "bot 1 (aa)".to_owned())));
}

#[test]
fn s2_another_server_gets_nothing_until_it_was_accepted() {
    let mut set = Settings::default();
    set.telegram.chat_ids = vec![10];
    set.telegram.user_ids = vec![7];
    set.telegram.token = Some("bot 1 (aa)".to_owned());
    let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
    set.telegram.api_url = "https://evil.example".to_owned();
    let found = effective(&set, &all);
    assert_eq!(found.waiting.len(), 1);
    assert!(!found.settings.telegram.is_complete());
    assert_eq!(found.settings.telegram.api_url, Settings::default().telegram.api_url);
}

#[test]
fn s2_another_proxy_gets_nothing_until_it_was_accepted() {
    let mut set = Settings::default();
    set.telegram.chat_ids = vec![10];
    set.telegram.user_ids = vec![7];
    set.telegram.token = Some("bot 1 (aa)".to_owned());
    let all: BTreeSet<_> = loosenings(&set).iter().map(Loosening::pair).collect();
    set.telegram.proxy = "http://evil.example:3128".to_owned();
    let found = effective(&set, &all);
    assert_eq!(found.waiting.len(), 1);
    assert!(!found.settings.telegram.is_complete() && found.settings.telegram.proxy.is_empty());
}

#[test]
fn s2_a_command_with_a_secret_waits_by_a_name_that_tells_no_secret_and_fits_no_other() {
    let by = |last: char| {
        let mut set = Settings::default();
        set.notify.command = format!("curl https://x.example/bot123456789:AA{}{last}", "b".repeat(32));
        set
    };
    let (one, other) = (by('1'), by('2'));
    let waits = effective(&one, &BTreeSet::new()).waiting;
    assert!(!format!("{waits:?} {}", waits[0]).contains("bbbb"), "{waits:?}");
    let accepted = BTreeSet::from([waits[0].pair()]);
    assert_eq!(effective(&one, &accepted).settings, one);
    assert_eq!(effective(&other, &accepted).settings.notify.command, "");
}

#[test]
fn t6_a_safety_default_of_allow_warns() {
    let mut set = Settings::default();
    assert_eq!(warnings(&set), Vec::<String>::new());
    set.permissions.safety_default = TimedDefault::Allow;
    assert!(warnings(&set)[0].contains("unattended loops go on without anyone confirming"));
}
