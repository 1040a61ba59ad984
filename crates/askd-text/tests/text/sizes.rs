//! Large inputs take time in proportion, and none is ever cut.

use std::time::{Duration, Instant};

use askd_text::{Action, Layout, display, display_masked, fits, messages, summary};

const SIZE: usize = 2 * 1024 * 1024;
/// A debug build on a machine that does other things: far above what it takes, far below what a slip into the square
/// of the size would take (hours).
const PATIENCE: Duration = Duration::from_secs(60);

fn measure(name: &str, tool: &str, input: &str) {
    let action = Action { tool, input: Some(input), ..Action::default() };
    let start = Instant::now();
    let fields = display(&action);
    let shown = start.elapsed();
    assert!(fields.iter().all(|field| field.complete));
    let masked = display_masked(&action);
    assert!(masked.len() >= fields.len());
    let masked_after = start.elapsed();
    let layout = Layout::new(&fields, 80);
    assert!(layout.pages(40).len() > 1 || layout.rows.len() <= 40);
    assert!(!fits(&fields, 4096) || messages(&fields, 4096).len() == 1);
    summary(&action, 80);
    let all = start.elapsed();
    println!("{name}: shown in {shown:?}, masked by {masked_after:?}, all by {all:?}");
    assert!(all < PATIENCE, "{name}: {all:?}");
}

fn text(key: &str, value: &str) -> String {
    serde_json::json!({ key: value }).to_string()
}

#[test]
fn s7_megabytes_of_anything_are_shown_in_reasonable_time() {
    let fill = |piece: &str| piece.repeat(SIZE / piece.len());
    for (name, piece) in [
        ("words", "ls some words; "),
        ("one character", "x"),
        ("lines", "a\n"),
        ("spaces in turn", "a  b \t"),
        ("zero-width", "a\u{200b}"),
        ("two hidden in turn", "\u{200b}\u{200c}"),
        ("Cyrillic", "слово с "),
        ("homographs", "\u{455}udo "),
        ("hosts", "a://b@c.\u{435} "),
        ("quotes", "'\"\\"),
        ("right to left", "\u{5d0} "),
        ("accents", "e\u{301}\u{302}\u{303}\u{304}\u{305}"),
        ("secrets", "ghp_aB3dE5gH7jK9mN1pQ2sT4vW6xY8zaB3dE5gH7 "),
        ("half secrets", "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-"),
        ("beginnings of secrets", "sk-"),
        ("beginnings of others", ".sk-a.eyJaaaaaaaa.AKIA"),
        ("half URLs", "://a:"),
        ("beginnings of keys", "-----BEGIN PRIVATE KEY-----"),
    ] {
        measure(name, "Bash", &text("command", &fill(piece)));
    }
    measure("Write", "Write", &text("content", &fill("fn main() {}\n")));
    let nested = format!("{{\"a\":{}1{}}}", "[".repeat(SIZE / 2), "]".repeat(SIZE / 2));
    measure("nested", "x", &nested);
    let keys: Vec<String> = (0..SIZE / 16).map(|n| format!("\"k{n:07}\":1")).collect();
    measure("keys", "x", &format!("{{{}}}", keys.join(",")));
    let edit = |old: &str, new: &str| serde_json::json!({ "old_string": old, "new_string": new }).to_string();
    let numbers = |from: usize| (from..from + SIZE / 32).map(|n| format!("{n}\n")).collect::<String>();
    measure("edit, all lines differ", "Edit", &edit(&numbers(0), &numbers(1_000_000)));
    measure("edit, a few lines in turn", "Edit", &edit(&fill("a\nb\n"), &fill("b\na\nb\n")));
}

#[test]
fn s7_the_shell_parser_gives_up_in_time() {
    let limit = 8 * 1024;
    for piece in [
        "a;",
        "(",
        "{ ",
        "$(",
        "`",
        "\"",
        "'",
        "${",
        "[[ ",
        "<<E\n",
        "if a; then ",
        "case a in b) ",
        "$((",
        "a|",
        "a&&",
        "<(",
        "!",
        "&",
        ";;",
        "\\",
        "#",
        "a=(",
        "{a,",
        "for a in b; do ",
        "\n",
        "é",
        "a b ",
        ">",
        "<<",
        "$'",
        "((",
        "function a { ",
        "\"$(",
        "a <<E && ",
        "@(",
        "+(a|",
        "$[",
        "coproc ",
        "[ ",
        "=~ ",
        "a[",
        "a[b]=",
    ] {
        let command = piece.repeat(limit / piece.len());
        let start = Instant::now();
        let is_split = askd_text::segments(&command).is_ok();
        println!("{piece:?}: {:?}, split: {is_split}", start.elapsed());
        assert!(start.elapsed() < PATIENCE, "{piece:?}");
    }
}
