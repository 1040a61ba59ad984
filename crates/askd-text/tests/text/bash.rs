//! A real bash as the judge of segments.

use std::process::Command;

use askd_text::segments;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::properties::shellish;

/// Runs every argument as a command line of its own, once with all commands failing and once with none. No command
/// exists, so bash reports each one it would run, with its arguments.
const SCRIPT: &str = r#"
PATH=/nonexistent
set -f
command_not_found_handle() {
    local all=
    for word in "$@"; do all+="<$word> "; done
    printf '%s\0' "$all" >&9
    return "$STATUS"
}
for line in "$@"; do
    for STATUS in 0 1; do
        (eval -- "$line") 9>>"$LOG" 2>/dev/null </dev/null >/dev/null
    done
done
"#;

/// The commands that bash runs, sorted, each once.
fn ran(lines: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let status = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", SCRIPT, "bash"])
        .args(lines)
        .env_clear()
        .env("LOG", &log)
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(status.code().is_some());
    let log = std::fs::read(&log).unwrap();
    let mut ran: Vec<String> = log
        .split(|b| *b == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| String::from_utf8_lossy(entry).into_owned())
        .collect();
    ran.sort();
    ran.dedup();
    ran
}

fn bash_parses(command: &str) -> bool {
    let output = Command::new("bash")
        .args(["--norc", "--noprofile", "-n", "-c", command])
        .env_clear()
        .output()
        .unwrap();
    output.status.success() && output.stderr.is_empty()
}

/// Nothing must run that is in no segment, and every segment must run.
fn agrees(command: &str) {
    let Ok(segments) = segments(command) else { return };
    if !bash_parses(command) {
        return;
    }
    let mut parts = Vec::new();
    let mut all_report = true;
    for segment in segments.iter().filter(|segment| !segment.text.starts_with('#')) {
        let part = ran(&[segment.text]);
        all_report &= !part.is_empty();
        parts.extend(part);
    }
    let whole = ran(&[command]);
    assert!(whole.iter().all(|ran| parts.contains(ran)), "{command:?} runs {whole:?}, its parts {parts:?}");
    // What reports nothing (a redirection alone, a path) has a fixed status, so what is joined to it may not run.
    if all_report {
        assert!(
            parts.iter().all(|ran| whole.contains(ran)),
            "{command:?} runs {whole:?}, its parts {parts:?}"
        );
    }
}

#[test]
fn s4_bash_itself_runs_the_segments_and_nothing_else() {
    for command in [
        "a; b && c || d | e",
        "a 'x;y' \"z && w\" \\; b\nc # d; e\nf",
        "a >o 2>&1 && b &>o | c",
        "a\\\n;b\\\n c",
        "a#b; c \\# d",
        "a \"\n; b\"; c",
        "a b\\ ; c\\",
        "a {b,c}; d",
        ">o a; b",
    ] {
        agrees(command);
    }
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    });
    let understood = shellish()
        .prop_filter("not understood", |command| segments(command).is_ok_and(|segments| segments.len() > 1));
    runner
        .run(&understood, |command| {
            agrees(&command);
            Ok(())
        })
        .unwrap();
}
