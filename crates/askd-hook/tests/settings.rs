//! Putting the hooks into settings of every shape and taking them out again.

use std::path::Path;

use askd_client::Places;
use askd_hook::claude::settings::{
    EVENTS, EventHook, Hooking, PERMISSION_TIMEOUT_SECS, SettingsError, hidden_asks, inspect, install,
    run_settings, uninstall,
};
use serde_json::Value;

fn with<T>(change: impl FnOnce(&Hooking<'_>) -> T) -> T {
    let places = Places::at(Path::new("/home/a b/askd"));
    change(&Hooking {
        exe: Path::new("/usr/bin/askd"),
        places: &places,
        timeout_secs: PERMISSION_TIMEOUT_SECS,
        owner: None,
    })
}

/// Settings that people have: every layout, other people's hooks, odd but valid text.
const TEXTS: [&str; 16] = [
    "{}",
    "{ }",
    "{\n}\n",
    "",
    " \n",
    "{\"model\":\"opus\"}",
    "{\n  \"model\": \"opus\"\n}\n",
    "{\n\t\"model\" : \"opus\" ,\n\n\t\"env\": {\"A\":\"1\"}\n}",
    "{\r\n    \"model\": \"opus\",\r\n    \"hooks\": {\r\n        \"Stop\": [\r\n            {\r\n                \"hooks\": []\r\n            }\r\n        ]\r\n    }\r\n}\r\n",
    "{\"hooks\":{}}",
    "{\"hooks\":{\"PreToolUse\":[]},\"z\":1}",
    "{\n  \"hooks\": {\n    \"PreToolUse\": [ {\"matcher\":\"Bash\",\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}]} ],\n    \"Notification\": [\n      {\n        \"hooks\": [ { \"type\": \"command\", \"command\": \"askd-other\" } ]\n      }\n    ]\n  },\n  \"b\": 1e400,\n  \"a\": 12345678901234567890123\n}",
    "\u{feff}{\n  \"a\": \"\\ud800 \\u00e9 / \\/ \\\"}\"\n}\n",
    "{\"a\":[1,[2,{\"b\":[]}]],\"a\":2}",
    "{\"hooks\": {\"Stop\": [{\"hooks\":[{\"type\":\"command\",\"command\":\"/usr/bin/askd\",\"args\":[\"status\"]}]}]}}",
    "  {\n  \"hooks\"  :  {  }  ,\n  \"x\" : null }  ",
];

#[test]
fn undo_without_another_change_gives_the_same_bytes() {
    for text in TEXTS {
        let manifest = with(|hooking| install(Some(text), hooking, None)).unwrap();
        assert_ne!(manifest.installed, text);
        assert_eq!(
            uninstall(&manifest.installed, Some(&manifest)).unwrap().as_deref(),
            Some(text),
            "{text:?}"
        );
    }
    let manifest = with(|hooking| install(None, hooking, None)).unwrap();
    assert_eq!(uninstall(&manifest.installed, Some(&manifest)), Ok(None), "there was no file");
}

#[test]
fn undo_without_a_manifest_leaves_every_other_byte() {
    for text in TEXTS {
        let installed = with(|hooking| install(Some(text), hooking, None)).unwrap().installed;
        let undone = uninstall(&installed, None).unwrap().unwrap();
        let findings = inspect(&undone).unwrap();
        assert!(findings.hooks.is_empty(), "{undone}");
        // Containers that were empty before are the only thing that may be gone.
        let squeezed = |text: &str| {
            let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            let text = text.replace("\"PreToolUse\":[]", "").replace("\"hooks\":{}", "").replace("{,", "{");
            if text.is_empty() { "{}".to_owned() } else { text }
        };
        assert_eq!(squeezed(&undone), squeezed(text));
        let plain = !text.trim_matches(['{', '}', ' ', '\n']).is_empty()
            && !text.contains("[]")
            && !text.contains("{}");
        if plain && !text.contains("{  }") {
            assert_eq!(undone, text);
        }
    }
}

#[test]
fn undo_after_another_change_removes_only_ours() {
    for text in TEXTS {
        let manifest = with(|hooking| install(Some(text), hooking, None)).unwrap();
        // Somebody adds a member at the front and a hook beside ours.
        let brace = manifest.installed.find('{').unwrap();
        let mut changed = manifest.installed.clone();
        changed.insert_str(brace + 1, "\"added\": [1],");
        let undone = uninstall(&changed, Some(&manifest)).unwrap().unwrap();
        assert!(undone.contains("\"added\": [1]"), "{undone}");
        assert!(inspect(&undone).unwrap().hooks.is_empty());
        for kept in ["\"hooks\"", "\"PreToolUse\"", "\"Stop\"", "\"Notification\"", "\"model\""] {
            assert_eq!(undone.contains(kept), text.contains(kept), "{kept} in {undone}");
        }
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(undone.trim_start_matches('\u{feff}')).is_ok());
    }
}

#[test]
fn a_hook_that_somebody_put_beside_ours_in_one_group_stays() {
    let installed = with(|hooking| install(None, hooking, None)).unwrap().installed;
    let other = "{\"type\":\"command\",\"command\":\"mine\"}";
    let at = installed.find("\"Stop\"").unwrap();
    let list = at + installed[at..].find("\"hooks\": [").unwrap() + "\"hooks\": [".len();
    for (front, back) in [(format!("{other},"), String::new()), (String::new(), format!(",{other}"))] {
        let mut text = installed.clone();
        let end = list + installed[list..].find('}').unwrap() + 1;
        text.insert_str(end, &back);
        text.insert_str(list, &front);
        let undone: Value = serde_json::from_str(&uninstall(&text, None).unwrap().unwrap()).unwrap();
        let expected: Value =
            serde_json::from_str(&format!("{{\"hooks\":{{\"Stop\":[{{\"hooks\":[{other}]}}]}}}}")).unwrap();
        assert_eq!(undone, expected);
    }
}

#[test]
fn installing_only_inserts_and_twice_is_once() {
    for text in TEXTS {
        let first = with(|hooking| install(Some(text), hooking, None)).unwrap();
        let again = with(|hooking| install(Some(&first.installed), hooking, Some(&first))).unwrap();
        assert_eq!(again, first);
        // Every byte that was there is there in the same order, but for white space inside empty braces.
        let mut rest = first.installed.bytes().filter(|b| !b.is_ascii_whitespace());
        for byte in text.bytes().filter(|b| !b.is_ascii_whitespace()) {
            assert!(rest.any(|other| other == byte), "{text:?}");
        }
        let findings = inspect(&first.installed).unwrap();
        assert!(findings.missing.is_empty());
        assert_eq!(findings.hooks.len(), EVENTS.len());
        if text.contains("\r\n") {
            assert_eq!(first.installed.matches('\n').count(), first.installed.matches("\r\n").count());
        }
    }
}

#[test]
fn an_upgrade_replaces_the_old_hooks() {
    let first = with(|hooking| install(Some(TEXTS[7]), hooking, None)).unwrap();
    let places = Places::in_homes(Path::new("/c"), Path::new("/s"));
    let newer = Hooking { exe: Path::new("/opt/askd"), places: &places, timeout_secs: 900, owner: None };
    for previous in [Some(&first), None] {
        let second = install(Some(&first.installed), &newer, previous).unwrap();
        let findings = inspect(&second.installed).unwrap();
        assert_eq!(findings.hooks.len(), EVENTS.len());
        assert!(findings.hooks.iter().all(|hook| hook.command == "/opt/askd"));
        assert_eq!(uninstall(&second.installed, Some(&second)).unwrap().as_deref(), Some(TEXTS[7]));
    }
}

#[test]
fn t8_hooks_of_before_the_gate_are_found_and_renewed() {
    // As earlier versions wrote it.
    let older = r#"{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"/usr/bin/askd","args":["hook","claude-code","--dir","/home/a b/askd"],"timeout":15}]}],"PermissionRequest":[{"matcher":"*","hooks":[{"type":"command","command":"/usr/bin/askd","args":["hook","claude-code","--dir","/home/a b/askd","--timeout","604800"],"timeout":604800}]}]}}"#;
    let found = inspect(older).unwrap();
    let outdated: Vec<_> = found.hooks.iter().filter(|hook| hook.is_outdated()).collect();
    assert_eq!(outdated.len(), 1);
    assert_eq!((outdated[0].event.as_str(), outdated[0].timeout_secs), ("PreToolUse", Some(15)));
    assert!(found.missing.contains(&"PostToolBatch"));
    let renewed = inspect(&with(|hooking| install(Some(older), hooking, None)).unwrap().installed).unwrap();
    assert!(renewed.missing.is_empty() && !renewed.hooks.iter().any(EventHook::is_outdated));
}

#[test]
fn what_is_written_is_the_exec_form_with_explicit_timeouts() {
    let installed =
        with(|hooking| install(Some("{\n  \"model\": \"opus\"\n}\n"), hooking, None)).unwrap().installed;
    let expected = r#"{
  "model": "opus",
  "hooks": {
    "PermissionRequest": [
      {
        "matcher": "*",
        "hooks": [
          {
            "type": "command",
            "command": "/usr/bin/askd",
            "args": [
              "hook",
              "claude-code",
              "--dir",
              "/home/a b/askd",
              "--timeout",
              "604800"
            ],
            "timeout": 604800
          }
        ]
      }
    ],
"#;
    assert!(installed.starts_with(expected), "{installed}");
    assert!(installed.ends_with("\n}\n"));
    let value: Value = serde_json::from_str(&installed).unwrap();
    for (event, matched) in EVENTS {
        let group = &value["hooks"][event][0];
        assert_eq!(group.get("matcher").is_some(), matched, "{event}");
        let hook = &group["hooks"][0];
        let waits = matches!(event, "PermissionRequest" | "PreToolUse");
        assert_eq!(hook["timeout"], if waits { 604_800 } else { 15 }, "{event}");
        // The hook has to know it too.
        let told = hook["args"].as_array().unwrap().ends_with(&["--timeout".into(), "604800".into()]);
        assert_eq!(told, waits, "{event}");
    }
}

#[test]
fn wrong_settings_are_refused_with_the_place() {
    let broken = "{\n  \"a\": 1,\n  // comment\n}";
    let error = with(|hooking| install(Some(broken), hooking, None)).unwrap_err();
    assert!(matches!(error, SettingsError::NotJson { line: 3, column: 3, .. }), "{error}");
    assert_eq!(error.to_string(), "the settings are not valid JSON: line 3, column 3: key must be a string");
    for (text, place) in [
        ("[]", "the top"),
        ("{\"hooks\": []}", "hooks"),
        ("{\"hooks\": {\"Stop\": {}}}", "hooks.Stop"),
        ("{\"hooks\": {}, \"hooks\": {}}", "two members named \"hooks\""),
        ("{\"hooks\": {\"Stop\": [], \"Stop\": []}}", "two members named \"Stop\""),
        ("{\"a\": 1} x", "trailing characters"),
        ("{\"a\": tru}", "line 1"),
    ] {
        let error = with(|hooking| install(Some(text), hooking, None)).unwrap_err();
        assert!(error.to_string().contains(place), "{text}: {error}");
        assert!(uninstall(text, None).is_err());
        assert!(inspect(text).is_err());
    }
    let places = Places::at(Path::new("/d"));
    for timeout_secs in [0, 2_147_484] {
        let hooking = Hooking { exe: Path::new("/askd"), places: &places, timeout_secs, owner: None };
        assert_eq!(install(None, &hooking, None), Err(SettingsError::Timeout(timeout_secs)));
    }
}

#[test]
fn modes_that_hide_asks_are_named() {
    let findings = inspect("{\"permissions\":{\"defaultMode\":\"auto\"},\"disableAllHooks\":true}").unwrap();
    assert_eq!(findings.default_mode.as_deref(), Some("auto"));
    assert!(findings.hooks_disabled);
    assert_eq!(findings.missing.len(), EVENTS.len());
    assert!(hidden_asks(Some("auto"), None).unwrap().contains("defaultMode"));
    assert_eq!(hidden_asks(Some("default"), None), None);
    assert_eq!(hidden_asks(None, Some("2.1.197 (Claude Code)")), None);
    assert!(hidden_asks(None, Some("2.1.332 (Claude Code)")).unwrap().starts_with("in mode auto"));
    assert!(hidden_asks(None, None).is_some());
}

#[test]
fn settings_for_one_run_name_their_owner() {
    let places = Places::at(Path::new("/d"));
    let hooking =
        Hooking { exe: Path::new("/askd"), places: &places, timeout_secs: 604_800, owner: Some("run-1@42") };
    let text = run_settings(&hooking, Some("default")).unwrap();
    assert!(!text.contains('\n'));
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["permissions"]["defaultMode"], "default");
    for (event, _) in EVENTS {
        let args = value["hooks"][event][0]["hooks"][0]["args"].as_array().unwrap();
        assert!(args.ends_with(&["--owner".into(), "run-1@42".into()]), "{args:?}");
    }
}
