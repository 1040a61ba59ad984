//! Layers, origins, errors, explanations, and the files that are made from the list of keys.
#![expect(clippy::unwrap_used, reason = "in a test, to fail is the handling")]

use std::ffi::OsString;
use std::path::Path;

use askd_config::keys::KEYS;
use askd_config::{
    ConfigErrors, HoldBackground, Layers, NoSuchKey, Origin, Settings, TimedDefault, Unreachable,
    default_file, schema,
};

fn file(text: &str) -> Layers {
    Layers::new().file_text("config.toml", text)
}

fn errors(layers: Layers) -> Vec<String> {
    let errors: ConfigErrors = layers.load().unwrap_err();
    let lines: Vec<_> = errors.errors().iter().map(ToString::to_string).collect();
    assert_eq!(errors.to_string(), lines.join("\n"));
    lines
}

fn env(vars: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

#[test]
fn nothing_given_is_the_documented_defaults() {
    let config = Layers::new().load().unwrap();
    let settings = config.settings();
    assert_eq!(*settings, Settings::default());
    let permissions = &settings.permissions;
    assert_eq!((permissions.background_timeout_secs, permissions.safety_timeout_secs), (360, 360));
    assert_eq!(permissions.background_default, TimedDefault::Deny);
    assert_eq!(permissions.safety_default, TimedDefault::Deny);
    assert_eq!(permissions.unreachable, Unreachable::WhenNoSurface);
    assert_eq!(permissions.late_answer_secs, 60);
    assert_eq!(settings.hook.hold_background, HoldBackground::Auto);
    assert_eq!((settings.journal.url.path(), settings.journal.retention_days), (None, 30));
    assert!(settings.daemon.autostart);
}

#[test]
fn each_layer_beats_the_one_before_it_and_the_origin_is_known() {
    let text = "[permissions]\nbackground_timeout_secs = 10\nsafety_timeout_secs = 0x10\n\n\
                [journal]\nretention_days = 1_000\nurl = 'sqlite:/from/file'\n";
    let config = file(text)
        .env(env(&[
            ("ASKD_PERMISSIONS__SAFETY_TIMEOUT_SECS", "20"),
            ("ASKD_JOURNAL__URL", "sqlite:/from/env"),
            ("ASKD_DIR", "/somewhere"),
            ("ASKD_OWNER", "x"),
            ("PATH", "/bin"),
        ]))
        .flag("--journal", "journal.url", "sqlite:from/flag")
        .load()
        .unwrap();
    let settings = config.settings();
    assert_eq!(settings.permissions.background_timeout_secs, 10);
    assert_eq!(settings.permissions.safety_timeout_secs, 20);
    assert_eq!(settings.journal.retention_days, 1000);
    assert_eq!(settings.journal.url.path(), Some(Path::new("from/flag")));

    let in_file = |line| Origin::File { path: "config.toml".into(), line };
    let origin = |key: &str| config.explain(key).unwrap().origin;
    assert_eq!(origin("permissions.background_timeout_secs"), in_file(2));
    let name = "ASKD_PERMISSIONS__SAFETY_TIMEOUT_SECS".to_owned();
    assert_eq!(origin("permissions.safety_timeout_secs"), Origin::Env { name });
    assert_eq!(origin("permissions.background_default"), Origin::Default);
    assert_eq!(origin("journal.url"), Origin::Flag { name: "--journal".into() });
    let beaten: Vec<_> =
        config.explain("journal.url").unwrap().beaten.into_iter().map(|given| given.value).collect();
    assert_eq!(beaten, ["\"sqlite:/from/env\"", "\"sqlite:/from/file\"", "\"sqlite:\""]);
    assert_eq!(config.origins().count(), 4);
}

#[test]
fn s2_without_the_environment_layer_its_variables_set_nothing() {
    let vars = env(&[("ASKD_PERMISSIONS__BACKGROUND_DEFAULT", "allow")]);
    assert_eq!(*Layers::new().load().unwrap().settings(), Settings::default());
    let with = Layers::new().env(vars).load().unwrap();
    assert_eq!(with.settings().permissions.background_default, TimedDefault::Allow);
}

#[test]
fn t6_every_wrong_value_is_named_with_line_key_value_and_what_is_allowed() {
    let text = r#"
[permissions]
background_timeout_secs = 0
background_default = "perhaps"
safety_timeout_secs = -5
safety_default = true
unreachable = ["when_no_surface"]
late_answer_secs = 99999999999999999999999

[hook]
hold_background = "ALWAYS"
[journal]
url = "mysql://x"
retention_days = "30"
[daemon]
autostart = "yes"
"#;
    assert_eq!(
        errors(file(text)),
        [
            "config.toml:3: permissions.background_timeout_secs = 0: not allowed; allowed: a whole number from 1 to 31536000",
            "config.toml:4: permissions.background_default = \"perhaps\": not allowed; allowed: \"allow\", \"deny\"",
            "config.toml:5: permissions.safety_timeout_secs = -5: not allowed; allowed: a whole number from 1 to 31536000",
            "config.toml:6: permissions.safety_default = true: a switch does not belong here; allowed: \"allow\", \"deny\"",
            "config.toml:7: permissions.unreachable = [\"when_no_surface\"]: a list does not belong here; allowed: \"when_no_surface\", \"when_none_attached\"",
            "config.toml:8: permissions.late_answer_secs = 99999999999999999999999: not allowed; allowed: a whole number from 0 to 600",
            "config.toml:11: hook.hold_background = \"ALWAYS\": not allowed; allowed: \"auto\", \"always\", \"never\"",
            "config.toml:13: journal.url = \"mysql://x\": not allowed; allowed: \"sqlite:\" for the default place, or \"sqlite:\" and an absolute path",
            "config.toml:14: journal.retention_days = \"30\": a text does not belong here; allowed: a whole number from 1 to 36500",
            "config.toml:16: daemon.autostart = \"yes\": a text does not belong here; allowed: true, false",
        ]
    );
}

#[test]
fn t6_wrong_values_of_environment_and_flags_are_named_too_after_those_of_the_file() {
    let layers = file("[permissions]\nbackground_timeout_secs = 1.5\n")
        .env(env(&[
            ("ASKD_PERMISSIONS__SAFETY_DEFAULT", "ALLOW"),
            ("ASKD_PERMISSIONS__BACKGROUND_TIMEOUT_SECS", ""),
            ("ASKD_ANSWER__PROOF", "pin"),
            ("ASKD_PERMISSIONS__BACKGROUND_DEFALT", "deny"),
            ("ASKD_PERMISSIONS_BACKGROUND_DEFAULT", "deny"),
        ]))
        .flag("--journal", "journal.url", "postgres://me:secret@host/db");
    assert_eq!(
        errors(layers),
        [
            "config.toml:2: permissions.background_timeout_secs = 1.5: a fraction does not belong here; allowed: a whole number from 1 to 31536000",
            "ASKD_ANSWER__PROOF: answer.proof is not served by this version",
            "ASKD_PERMISSIONS_BACKGROUND_DEFAULT: this variable sets nothing; did you mean ASKD_PERMISSIONS__BACKGROUND_DEFAULT?",
            "ASKD_PERMISSIONS__BACKGROUND_DEFALT: permissions.background_defalt = deny: not a key; did you mean permissions.background_default?",
            "ASKD_PERMISSIONS__BACKGROUND_TIMEOUT_SECS: permissions.background_timeout_secs = : not allowed; allowed: a whole number from 1 to 31536000",
            "ASKD_PERMISSIONS__SAFETY_DEFAULT: permissions.safety_default = ALLOW: not allowed; allowed: \"allow\", \"deny\"",
            "--journal: journal.url = postgres:…: PostgreSQL is not served by this version; allowed: \"sqlite:\" for the default place, or \"sqlite:\" and an absolute path",
        ]
    );
}

#[test]
fn unknown_keys_and_sections_get_a_suggestion_and_later_ones_a_plain_word() {
    let text = r#"
background_default = "deny"
[permision]
background_default = "deny"
[permissions]
backgroud_default = "deny"
queue_cap = 5
qeue_cap = 5
colour = "red"
[telegram]
token_file = "/secret/place"
token = "123:abc"
[web]
[journal]
url = "sqlite:relative.db"
allow_unsafe = true
"#;
    assert_eq!(
        errors(file(text)),
        [
            "config.toml:2: background_default = \"deny\": not a key; did you mean permissions.background_default?",
            "config.toml:3: [permision] is not a section; did you mean [permissions]?",
            "config.toml:6: permissions.backgroud_default = \"deny\": not a key; did you mean permissions.background_default?",
            "config.toml:8: permissions.qeue_cap = 5: not a key; did you mean permissions.queue_cap?",
            "config.toml:9: permissions.colour = \"red\": not a key; `askd config` prints all keys",
            "config.toml:12: telegram.token is not a key; did you mean telegram.token_file?",
            "config.toml:13: [web] is not served by this version",
            "config.toml:15: journal.url = \"sqlite:relative.db\": the path is relative to nobody knows what; allowed: \"sqlite:\" for the default place, or \"sqlite:\" and an absolute path",
            "config.toml:16: journal.allow_unsafe is not served by this version",
        ]
    );
    assert_eq!(
        errors(file("permissions = 3\n[[hook]]\n")),
        [
            "config.toml:1: permissions = 3: permissions is a section; allowed: [permissions] with its keys under it",
            "config.toml:2: hook = [[hook]]: hook is a section; allowed: [hook] with its keys under it",
        ]
    );
}

#[test]
fn lists_addresses_and_paths_are_checked() {
    let text = r#"
[telegram]
token_file = "relative"
token_env = "A\tB"
chat_ids = [1, "2"]
user_ids = 7
max_open = 0
api_url = "http://api.example.org"
"#;
    let found = errors(file(text));
    assert_eq!(found.len(), 6, "{found:#?}");
    assert!(
        found[2].starts_with("config.toml:5: telegram.chat_ids = [1, \"2\"]: not allowed; allowed: a list")
    );
    assert!(found[3].contains("a number does not belong here"));
    for bad in
        ["https://", "ftp://x", "https://me@x", "https://x?y", "http://127.0.0.1.evil.org", "http://[::2]"]
    {
        assert_eq!(errors(file(&format!("[telegram]\napi_url = \"{bad}\"\n"))).len(), 1, "{bad}");
    }
    let good = "[telegram]\nuser_ids = [7, 5, 7]\napi_url = \"http://[::1]:8081/\"\n";
    let config = file(good).env(env(&[("ASKD_TELEGRAM__CHAT_IDS", " -100, 5 ")])).load().unwrap();
    let telegram = &config.settings().telegram;
    assert_eq!((&telegram.chat_ids[..], &telegram.user_ids[..]), (&[-100, 5][..], &[5, 7][..]));
    assert_eq!(telegram.api_url, "http://[::1]:8081");
}

#[test]
fn broken_toml_is_told_by_line_together_with_the_other_errors() {
    let text = "[permissions]\nbackground_default = \nsafety_default = \"perhaps\"\nbackground_timeout_secs = 1\nbackground_timeout_secs = 2\n[hook\n";
    let found = errors(file(text));
    assert!(found[0].starts_with("config.toml:2: not TOML: "), "{found:#?}");
    assert!(found[1].starts_with("config.toml:3: permissions.safety_default"), "{found:#?}");
    assert!(found[2].starts_with("config.toml:5: not TOML: duplicate key"), "{found:#?}");
    assert!(found[3].starts_with("config.toml:6: not TOML: "), "{found:#?}");
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn s4_foreign_text_in_messages_is_marked_and_cut() {
    let text =
        format!("[permissions]\nbackground_default = '{}\u{202e}{}'\n", "x".repeat(10), "y".repeat(500));
    let found = errors(file(&text));
    assert!(found[0].contains("\\u{202e}y"), "{found:?}");
    assert!(found[0].contains("… (+") && found[0].len() < 300, "{found:?}");
    let found = errors(file("[permissions]\n\"a\\u001b[2K\" = 1\n"));
    assert!(found[0].contains("a\\u{1b}[2K = 1: not a key"), "{found:?}");
}

#[test]
fn s7_no_text_panics() {
    for text in
        ["\0", "[", "=", "[permissions]\nx = [[[[{a={b=[", "\u{feff}[hook]", "a.b.c.d = 1", "é = é", "'' = 1"]
    {
        let _ = file(text).load();
    }
    let deep = format!("[permissions]\nbackground_default = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(!errors(file(&deep)).is_empty());
    let many: String = (0..50_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(errors(file(&many)).len(), 50_000);
}

#[test]
fn files_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    let load = || Layers::new().file(&path).load();
    assert_eq!(*load().unwrap().settings(), Settings::default());

    std::fs::write(&path, "[permissions]\nunreachable = 'when_none_attached'\n").unwrap();
    assert_eq!(load().unwrap().settings().permissions.unreachable, Unreachable::WhenNoneAttached);

    std::fs::write(&path, b"[permissions]\n# \xff\n").unwrap();
    assert!(load().unwrap_err().to_string().ends_with("config.toml: line 2 is not UTF-8"));

    std::fs::write(&path, " ".repeat((1 << 20) + 1)).unwrap();
    assert!(load().unwrap_err().to_string().ends_with("config.toml: is larger than 1048576 bytes"));

    let err = Layers::new().file(dir.path()).load().unwrap_err();
    assert!(err.to_string().contains("is not a regular file"), "{err}");

    // Somebody else could write the rules.
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert!(load().unwrap_err().to_string().contains("can be written by everybody"));
}

#[test]
fn explain_tells_value_origin_meaning_and_what_is_allowed() {
    let config = file("[permissions]\nbackground_default = \"allow\"\n").load().unwrap();
    assert_eq!(
        config.explain("permissions.background_default").unwrap().to_string(),
        "permissions.background_default = \"allow\"\n  \
           from     config.toml:2\n  \
           instead of \"deny\" (default)\n  \
           meaning  What settles a background ask at its deadline.\n  \
           allowed  \"allow\", \"deny\"\n  \
           or set   ASKD_PERMISSIONS__BACKGROUND_DEFAULT"
    );
    assert_eq!(config.explain("web.listen").unwrap_err(), NoSuchKey::NotServed { key: "web.listen".into() });
    assert_eq!(
        config.explain("permissions.saftey_default").unwrap_err().to_string(),
        "permissions.saftey_default is not a key; did you mean permissions.safety_default?"
    );
}

#[test]
fn the_default_file_sets_nothing_and_its_keys_uncommented_are_the_defaults() {
    let text = default_file();
    let config = file(&text).load().unwrap();
    assert_eq!((config.origins().count(), config.settings()), (0, &Settings::default()));
    let set: String = text
        .lines()
        .map(|line| {
            format!("{}\n", line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        })
        .collect();
    let config = file(&set).load().unwrap();
    assert_eq!((config.origins().count(), config.settings()), (KEYS.len(), &Settings::default()));
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

/// The committed schema is made by `askd_config::schema`; `askd config schema` prints it.
#[test]
fn the_committed_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, schema()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert_eq!(committed, schema(), "run this test once with UPDATE_SCHEMA=1 and commit the file");
}

#[test]
fn schema_and_list_of_keys_say_the_same() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let mut names = Vec::new();
    for (section, reference) in schema["properties"].as_object().unwrap() {
        let definition = reference["$ref"].as_str().unwrap().trim_start_matches('#');
        let definition = schema.pointer(definition).unwrap();
        assert_eq!(definition["additionalProperties"], false);
        for (key, about) in definition["properties"].as_object().unwrap() {
            let name = format!("{section}.{key}");
            let key = askd_config::keys::find(&name).unwrap();
            assert_eq!(about["description"], key.meaning, "{name}");
            let default: serde_json::Value =
                serde_json::from_str(&key.literal(&Settings::default())).unwrap();
            assert_eq!(about["default"], default, "{name}");
            let allowed = match (&about["enum"], &about["minimum"], about["type"].as_str()) {
                (serde_json::Value::Array(words), ..) => {
                    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                }
                (_, serde_json::Value::Number(min), _) => {
                    format!("a whole number from {min} to {}", about["maximum"])
                }
                (_, _, Some("boolean")) => "true, false".to_owned(),
                _ => key.allowed(),
            };
            assert_eq!(allowed, key.allowed(), "{name}");
            names.push(name);
        }
    }
    let mut listed: Vec<_> = KEYS.iter().map(|key| key.name.to_owned()).collect();
    listed.sort();
    names.sort();
    assert_eq!(names, listed);
}
