//! Fixed asks and sessions for the tests of what is printed.

use askd_wire::{Ask, SessionView};

fn ask(json: &str) -> Ask {
    serde_json::from_str(json).unwrap()
}

/// An open ask of a background subagent, with hostile text where a person will look.
pub(crate) fn background() -> Ask {
    ask(BACKGROUND)
}

/// A script's ask that was denied with words.
pub(crate) fn settled() -> Ask {
    ask(SETTLED)
}

pub(crate) fn session() -> SessionView {
    serde_json::from_str(
        r#"{"agent":"claude-code","session":"5c1e","root":"5c1e","title":"fix the tests\u001b[2K","cwd":"/home/me/src/askd",
        "place":{"tty":"/dev/pts/3","tmux_pane":"%4"},"waiting":2,
        "subagents":[{"name":"first child","type":"general-purpose","work_id":"a1","depth":1}],
        "started_at":"2026-11-30T07:30:00.000Z"}"#,
    )
    .unwrap()
}

const BACKGROUND: &str = r#"{"id":"01930a00-0000-7000-8000-000000000001","handle":"k7f","state":"open",
"digest":"sha256:aa","class":"tool","attendance":"background",
"action":{"tool":"Bash","kind":"execute","title":null,"input":{"command":"cargo test\nrm x","n": 1.0e2},"cwd":"/home/me/src/askd"},
"display":[{"label":"command","lines":["cargo test","rm x\\u{202e}"],"marked":true,"complete":true},
{"label":"directory","lines":["/home/me/src/askd"],"marked":false,"complete":true}],
"lineage":{"agent":"claude-code","instance":"box:42@77","session":"5c1e","root":"5c1e","parent":null,
"subagent":{"name":"first child","type":"general-purpose","work_id":"a1","depth":1},"job":null,"tool_call":"toolu_1","host":null,
"place":{"tty":"/dev/pts/3","tmux_pane":"%4"}},
"options":[{"id":"allow_once","label":"Yes","kind":"allow_once"},
{"id":"always_1","label":"Yes, and always\u001b[8m","kind":"allow_always","grants":"Bash(cargo test *) in this session"},
{"id":"reject_once","label":"No","kind":"reject_once"}],
"asked_at":"2026-11-30T08:00:00.000Z","deadline":"2026-11-30T08:06:00.000Z","default":"deny","gives_up_at":null,
"requester":{"link":"attached","where":"terminal","kind":"hook"},"outcome":null,"delivery":"none"}"#;

const SETTLED: &str = r#"{"id":"01930a00-0000-7000-8000-000000000002","handle":"q2m","state":"settled",
"digest":"sha256:bb","class":"safety","attendance":"foreground",
"action":{"tool":"deploy","kind":null,"title":"Put the site live","input":null,"cwd":"/srv"},
"display":[{"label":"title","lines":["Put the site live"],"marked":false,"complete":true},
{"label":"directory","lines":["/srv"],"marked":false,"complete":true}],
"lineage":{"agent":"script","instance":null,"session":"nightly","root":"nightly","parent":null,"subagent":null,"job":"release",
"tool_call":null,"host":"other-box","place":null},
"options":[{"id":"allow_once","label":"Allow once","kind":"allow_once"},{"id":"reject_once","label":"Deny","kind":"reject_once"}],
"asked_at":"2026-11-30T07:00:00.000Z","deadline":null,"default":null,"gives_up_at":null,
"requester":{"link":"attached","kind":"script"},
"outcome":{"outcome":"denied","cause":"person","source":"direct","surface":"the terminal","by":"you","option":"reject_once",
"message":"not this folder","stop":false,"settled_at":"2026-11-30T07:00:30.000Z","verdict":"deny",
"reason_for_model":"not this folder","text":"denied by you in the terminal"},"delivery":"handed"}"#;
