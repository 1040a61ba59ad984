//! What must hold for every text, with texts that are dense in what is hard.

use askd_text::{Action, cut, display, safe, summary};
use proptest::prelude::*;

use crate::checks;
use crate::oracle::{DANGEROUS, assert_framed, assert_inert, assert_safe};

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

/// Texts dense in what secrets are made of.
fn secretive() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            "ghp_", "AKIA", "sk-", "sk-ant-", "xoxb-", "eyJ", ".", "github_pat_", "npm_", "Bearer ", "authorization: ",
            "Basic ", "token ", "://", "me:", "@", "123456789:", "A", "aws_secret_access_key=", "AIza", "SG.",
            "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----",
            "https://hooks.slack.com/services/", "x-api-key: ", "\n", "\\n", "\"", "'", " masked}", "\\u{36 masked}",
        ])
        .prop_map(String::from),
        3 => "[A-Za-z0-9]{20,70}",
        1 => "[A-Za-z0-9/+=_.-]{1,40}",
        1 => "[ ;$|`'\"(&]{1,3}",
        1 => tricky(),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

/// Texts dense in what shell commands are made of.
pub(crate) fn shellish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "c", "-x", "d/e", "f.g", "1", "=", "h=i", "{j,k}", "*.l", "~"]),
        6 => prop::sample::select(vec![" ", " ", " ", "\t", "\n", "\\\n", ";", "; ", " && ", "||", "|", "\n\n", " # m;n\n"]),
        3 => prop::sample::select(vec!["'o p'", "'q;r'", "\"s && t\"", "\"\n\"", "\\;", "\\\"", "\"\\\"\"", "''", "#", "\\ "]),
        2 => prop::sample::select(vec!["$V", "\"$V\"", "${W}", "2>&1", ">o", " >> o", "&>o", " </dev/null", "2> o"]),
        1 => prop::sample::select(vec![
            "'", "\"", "`", "$(c)", "(", ")", "{ ", "; }", "&", "!", "<<E", "if ", "then ", "$'", "[[", "]]", ";;", "|&",
            "<(", "((", "${V:-b}", "é", "\u{200b}", "\r", "case ", "for ", "time ", "do ", "function ", "$", "}", "<<<", "!",
        ]),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        tricky().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            prop::sample::select(vec!["command", "a", "edits", "old_string", "new_string"])
                .prop_map(String::from),
            tricky(),
        ];
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
        checks::safe_text(&text);
    }

    #[test]
    fn a_mask_covers_only_what_tokens_are_made_of(text in secretive()) {
        checks::masks(&text);
    }

    #[test]
    fn s7_segments_are_the_command(command in prop_oneof![shellish(), tricky()]) {
        checks::shell(&command);
    }

    #[test]
    fn s4_both_sides_of_an_edit_can_be_read_back(old in tricky(), new in tricky(), both in tricky()) {
        checks::edit(&old, &new);
        checks::edit(&format!("{both}\n{old}\n{both}"), &format!("{both}\n{new}\n{both}"));
    }

    #[test]
    fn s7_every_form_of_an_action_is_inert_and_whole(
        value in json(),
        tool in prop::sample::select(vec!["Bash", "Edit", "MultiEdit", "Write", "unknown"]),
        text in secretive(),
    ) {
        checks::action(tool, &value.to_string());
        checks::action(tool, &serde_json::json!({ "command": text, "content": text }).to_string());
        checks::action(tool, &text);
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
