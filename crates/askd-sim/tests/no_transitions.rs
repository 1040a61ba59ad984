//! The simulation links what ships and has no transition of its own: it never makes an event, a change or an outcome, and
//! never changes a working state. It only reads them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Making one of these, or calling one of these, would be a transition.
const NEVER: &[&str] = &[
    "Change::",
    "Note::",
    "Record {",
    "Record{",
    "Outcome {",
    "Outcome{",
    "LateAnswer {",
    "State::new",
    ".apply(",
    ".relink(",
    ".forget(",
    "State {",
    "AskState {",
    "Append {",
    "Entry {",
    "Fault::Rival",
    "Fault::rival",
];

#[test]
fn the_simulation_defines_no_transition() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    for path in &sources {
        let faults = transitions(&fs::read_to_string(path).unwrap());
        assert!(faults.is_empty(), "{}: {faults:?}", path.display());
    }
    for part in ["world.rs", "proxy/mod.rs", "bin/askd-sim.rs"] {
        assert!(sources.iter().any(|path| path.ends_with(part)), "{part} was not looked at");
    }
}

/// Every source below a directory.
fn sources(within: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(within)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[test]
fn the_check_tells_reading_from_making() {
    for reading in [
        "match event { Event::Handed => 1, Event::Shown { surface } | Event::Detached => 2 }",
        "if let Event::Settled { outcome } = event {}",
        "let Event::Asked { ask } = event else { return };",
        "match e { Event::HandedBack { at, .. } if at.is_empty() => 3 }",
        "matches!(e, Event::Settled { .. } | Event::Withdrawn { .. })",
        "if let (StreamId::Ask(id), Event::Asked { .. }) = pair {}",
        "// An Outcome { .. } in words, Event::Handed too",
        "fn f(event: &Event) -> &Outcome { event.outcome() }",
    ] {
        assert_eq!(transitions(reading), Vec::<String>::new(), "{reading}");
    }
    for making in [
        "let event = Event::Handed;",
        "journal(Event::Settled { outcome })",
        "Some(Event::Voided { why: text })",
        "vec![Event::Detached]",
        "let outcome = Outcome { kind, cause };",
        "state.apply(&change, now);",
        "Change::Note(note)",
        "return Event::Confirmed",
    ] {
        assert!(!transitions(making).is_empty(), "{making}");
    }
}

/// What in this source makes something that only the core may make.
fn transitions(source: &str) -> Vec<String> {
    let code: String =
        source.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let mut faults = Vec::new();
    for never in NEVER {
        for (at, _) in code.match_indices(never) {
            let before = code[..at].trim_end();
            // `-> &Outcome {` opens the body of a function.
            let is_type = before.ends_with("->") || before.ends_with('&');
            // The end of a longer name.
            let longer = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if longer && never.starts_with(char::is_alphabetic) {
                continue;
            }
            if !is_type {
                faults.push(format!("{never} at {at}"));
            }
        }
    }
    for (at, _) in code.match_indices("Event::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        if !is_pattern(&code, at) {
            let line = code[at..].lines().next().unwrap_or_default();
            faults.push(line.to_owned());
        }
    }
    faults
}

/// The variant that begins here is followed by what follows a pattern, in the end.
fn is_pattern(code: &str, at: usize) -> bool {
    let rest = &code[at + "Event::".len()..];
    let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let rest = skip_group(rest[name..].trim_start()).trim_start();
    let in_matches = code[..at].rfind("matches!(").is_some_and(|start| open(&code[start..at]) > 0);
    let in_tuple = code[..at].rfind("let (").is_some_and(|start| open(&code[start..at]) > 0);
    rest.starts_with("=>")
        || rest.starts_with('|')
        || rest.starts_with("if ")
        || (rest.starts_with("= ") && !rest.starts_with("=="))
        || ((in_matches || in_tuple) && rest.starts_with([')', '|', ',']))
}

/// Parentheses that are still open at the end.
fn open(text: &str) -> i32 {
    text.chars().map(|c| i32::from(c == '(') - i32::from(c == ')')).sum()
}

fn skip_group(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return &text[at + 1..];
                }
            }
            _ if depth == 0 => return text,
            _ => {}
        }
    }
    text
}
