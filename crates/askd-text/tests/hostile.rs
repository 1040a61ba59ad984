//! The corpus of hostile texts, and what must hold for every text.
#![expect(clippy::unwrap_used, reason = "in a test, to fail is the handling")]

use std::sync::LazyLock;

use askd_text::{Action, cut, display, safe, safe_lines, summary};
use proptest::prelude::*;
use regex::Regex;
use serde::Deserialize;

#[derive(Deserialize)]
struct Hostile {
    name: String,
    parts: Vec<(String, usize)>,
    marks: Vec<String>,
}

impl Hostile {
    fn text(&self) -> String {
        self.parts.iter().map(|(part, count)| part.repeat(*count)).collect()
    }
}

fn corpus() -> Vec<Hostile> {
    serde_json::from_str(include_str!("../corpus/hostile.json")).unwrap()
}

/// What must never be in anything safe, by Unicode's own properties.
static DANGEROUS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Variation_Selector}",
        r"\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}[\p{Zs}--\ ]]",
        r"|[\p{Mn}\p{Me}]{5}"
    ))
    .unwrap()
});

/// What must never be in a line of a text: padding.
static PADDING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\ {33}|[^\ ]\ {16}|\ $").unwrap());

fn assert_inert(shown: &str) {
    if let Some(found) = DANGEROUS.find(shown) {
        panic!("{:?} is in {shown:?}", found.as_str());
    }
}

fn assert_safe(line: &str) {
    assert_inert(line);
    assert!(!PADDING.is_match(line), "padding in {line:?}");
}

/// Lines of a display may have a frame of ours (indentation, keys) before text with an indentation of its own.
fn assert_framed(line: &str) {
    assert_inert(line);
    assert!(!line.ends_with(' ') && !line.contains(&" ".repeat(100)), "padding in {line:?}");
}

/// Reads the marks back: the proof that nothing was dropped and that no two texts look the same.
fn read_back(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '⇥' => out.push('\t'),
            '↵' => out.push('\n'),
            '\\' if rest.starts_with("u{") => {
                let (mark, after) = rest[2..].split_once('}').unwrap();
                rest = after;
                out.push_str(&meaning(mark));
            }
            c => out.push(c),
        }
    }
    out
}

fn meaning(mark: &str) -> String {
    let char_of = |hex| char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap();
    let Some((count, what)) = mark.split_once(' ') else {
        return char_of(mark).to_string();
    };
    let count: usize = count.parse().unwrap();
    match what {
        "spaces" => " ".repeat(count),
        "tabs" => "\t".repeat(count),
        "newlines" => "\n".repeat(count),
        // It is a line of its own, so one of its line breaks is the join's.
        "empty lines" => "\n".repeat(count - 1),
        what => char_of(what.strip_prefix("× ").unwrap()).to_string().repeat(count),
    }
}

#[test]
fn s4_every_hostile_text_is_visibly_marked() {
    for hostile in corpus() {
        let text = hostile.text();
        let (line, lines) = (safe(&text), safe_lines(&text));
        assert!(line.marked && lines.marked, "{}: not marked", hostile.name);
        assert_safe(&line.text);
        lines.lines.iter().for_each(|line| assert_safe(line));
        assert_eq!(read_back(&line.text), text, "{}", hostile.name);
        assert_eq!(read_back(&lines.lines.join("\n")), text, "{}", hostile.name);
        for mark in &hostile.marks {
            let split = mark.replace('↵', "\n");
            assert!(line.text.contains(mark), "{}: no {mark} in {:?}", hostile.name, line.text);
            assert!(lines.lines.join("\n").contains(&split), "{}: no {mark} in lines", hostile.name);
        }
    }
}

#[test]
fn s4_hostile_text_is_marked_wherever_it_stands_in_an_action() {
    for hostile in corpus() {
        let text = hostile.text();
        let places = [
            serde_json::json!({ "command": text }),
            serde_json::json!({ "command": "ls", "other": text }),
            serde_json::json!({ "command": "ls", "deep": [{ "deeper": [text] }] }),
            serde_json::json!({ "command": "ls", (text.clone()): 1 }),
            serde_json::json!({ "command": "ls", "deep": { (text.clone()): 1 } }),
            serde_json::json!([text]),
        ];
        for input in places.map(|place| place.to_string()) {
            let action = Action { tool: "Bash", input: Some(&input), ..Action::default() };
            let fields = display(&action);
            assert!(fields.iter().any(|field| field.marked), "{}: not marked in {fields:?}", hostile.name);
            for field in fields {
                assert_framed(&field.label);
                field.lines.iter().for_each(|line| assert_framed(line));
                assert!(field.complete);
            }
            assert_inert(&summary(&action, 100));
        }
        let outside =
            Action { tool: &text, kind: Some(&text), title: Some(&text), input: None, cwd: Some(&text) };
        let fields = display(&outside);
        assert_eq!(fields.len(), 3);
        assert!(fields.iter().all(|field| field.marked), "{}", hostile.name);
        fields.iter().flat_map(|field| &field.lines).for_each(|line| assert_safe(line));
        assert_inert(&summary(&outside, 100));
    }
}

#[test]
fn s4_no_single_character_escapes_its_class() {
    for c in '\0'..=char::MAX {
        let text = format!("a{c}b");
        let safe = safe(&text);
        assert_eq!(safe.marked, safe.text != text, "{c:?}");
        if DANGEROUS.is_match(&text) {
            assert!(safe.marked, "{c:?} is shown as it is");
        }
        assert_safe(&safe.text);
    }
}

/// Texts dense in what is hard: marks, half marks, runs, controls, accents, and ordinary words between them.
fn tricky() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z /;'\"-]{0,8}",
        2 => any::<char>().prop_map(String::from),
        2 => prop::sample::select(vec![
            "\\", "u{", "\\u{", "}", "\\u{202e}", "\\u{3 spaces}", "\\u{4 empty lines}", "⇥", "↵", "×", "… (+3)", "|",
            "\n", "\t", " ", "\r\n", "\u{1b}[", "\u{9b}", "\u{202e}", "\u{200b}", "\u{301}", "\u{336}", "\u{a0}",
            "\u{e0041}", "\u{fe0f}", "é", "漢",
        ])
        .prop_map(String::from),
        1 => (prop::sample::select(vec![" ", "\n", "\t", "\u{200b}", "\u{301}", "\\", "\n ", "é"]), 1..60_usize)
            .prop_map(|(piece, count)| piece.repeat(count)),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        tricky().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![Just("command".to_owned()), Just("a".to_owned()), tricky()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((key, inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn s4_marks_can_be_read_back(text in tricky()) {
        let line = safe(&text);
        assert_safe(&line.text);
        prop_assert_eq!(line.marked, line.text != text);
        prop_assert_eq!(read_back(&line.text), text.as_str());
        let lines = safe_lines(&text);
        lines.lines.iter().for_each(|line| assert_safe(line));
        let joined = lines.lines.join("\n");
        prop_assert_eq!(lines.marked, joined != text);
        prop_assert_eq!(read_back(&joined), text);
    }

    #[test]
    fn s4_a_cut_line_is_safe_fits_and_counts(text in tricky(), columns in 0..80_usize) {
        let line = safe(&text).text;
        let shown = cut(&line, columns);
        assert_inert(&shown);
        if shown != line {
            let (kept, note) = shown.rsplit_once("… (+").unwrap();
            prop_assert!(line.starts_with(kept));
            let hidden: usize = note.trim_end_matches(')').parse().unwrap();
            prop_assert_eq!(kept.chars().count() + hidden, line.chars().count());
            prop_assert!(kept.is_empty() || unicode_width::UnicodeWidthStr::width(shown.as_str()) <= columns);
        }
    }

    #[test]
    fn s4_different_inputs_never_look_the_same(
        inputs in prop_oneof![
            (json(), json()),
            (tricky(), tricky()).prop_map(|(a, b)| (a.into(), b.into())),
            (json(), any::<prop::sample::Index>()).prop_map(|(value, at)| (value.clone(), twist(value, at))),
        ],
        tool in prop::sample::select(vec!["Bash", "Edit", "unknown"]),
    ) {
        let shown = |input: &serde_json::Value| {
            let json = input.to_string();
            display(&Action { tool, input: Some(&json), ..Action::default() })
        };
        let (a, b) = (shown(&inputs.0), shown(&inputs.1));
        for line in a.iter().flat_map(|field| field.lines.iter().chain([&field.label])) {
            assert_framed(line);
        }
        if a == b && a.iter().all(|field| !field.marked) {
            let empty = |value: &serde_json::Value| value.is_null() || *value == serde_json::json!({});
            prop_assert!(inputs.0 == inputs.1 || (empty(&inputs.0) && empty(&inputs.1)), "{:?}", a);
        }
    }

    #[test]
    fn s7_no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), tool in tricky()) {
        let input = String::from_utf8_lossy(&bytes);
        let action = Action { tool: &tool, input: Some(&input), ..Action::default() };
        for field in display(&action) {
            field.lines.iter().for_each(|line| assert_framed(line));
        }
        assert_inert(&summary(&action, 40));
    }
}

/// The same value with one leaf turned into the text of its JSON, which must not look the same.
fn twist(value: serde_json::Value, at: prop::sample::Index) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Array(mut items) if !items.is_empty() => {
            let index = at.index(items.len());
            items[index] = twist(items[index].take(), at);
            items.into()
        }
        Value::Object(mut fields) if !fields.is_empty() => {
            let index = at.index(fields.len());
            if let Some(field) = fields.values_mut().nth(index) {
                *field = twist(field.take(), at);
            }
            fields.into()
        }
        other => other.to_string().into(),
    }
}
