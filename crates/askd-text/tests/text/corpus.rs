//! The corpora of hostile texts.

use askd_text::{Action, DisplayField, Layout, Reached, Row, display, messages, safe, safe_lines, summary};
use serde::Deserialize;

use crate::oracle::{assert_framed, assert_inert, assert_safe, read_back};

/// A small screen, as many have it.
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

#[derive(Deserialize)]
struct Hostile {
    name: String,
    parts: Vec<(String, usize)>,
    marks: Vec<String>,
    warning: Option<String>,
    #[serde(default)]
    long: bool,
}

impl Hostile {
    fn text(&self) -> String {
        self.parts.iter().map(|(part, count)| part.repeat(*count)).collect()
    }

    /// Whether something in it has to be replaced by a mark.
    fn is_marked(&self) -> bool {
        !self.marks.is_empty()
    }
}

fn corpus() -> Vec<Hostile> {
    serde_json::from_str(include_str!("../../corpus/hostile.json")).unwrap()
}

#[derive(Deserialize)]
struct HostileInput {
    name: String,
    input: Option<String>,
    shows: Option<String>,
    bytes: Option<String>,
}

fn inputs() -> Vec<HostileInput> {
    serde_json::from_str(include_str!("../../corpus/hostile-inputs.json")).unwrap()
}

fn command(text: &str) -> Vec<DisplayField> {
    let input = serde_json::json!({ "command": text }).to_string();
    display(&Action { tool: "Bash", input: Some(&input), ..Action::default() })
}

/// What is on the screen of a terminal that believes everything it is sent.
fn screen(text: &str) -> String {
    let mut terminal = vt100::Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0);
    terminal.process(text.replace('\n', "\r\n").as_bytes());
    terminal.screen().contents()
}

fn texts(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.text.as_str()).collect()
}

#[test]
fn s4_what_is_shown_differs_from_what_a_naive_terminal_shows() {
    for hostile in corpus() {
        let text = hostile.text();
        let naive = screen(&text);
        let mut fields = command(&text);
        // The command alone, and what is warned of: labels of ours would be a difference by themselves.
        fields.retain(|field| matches!(field.label.as_str(), "command" | "warning"));
        let layout = Layout::new(&fields, COLUMNS.into());
        let mut excerpt = layout.excerpt(ROWS.into());
        excerpt.head.retain(|row| row.line.is_some());
        excerpt.tail.retain(|row| row.line.is_some());
        let note = excerpt.note();
        let mut shown = texts(&excerpt.head);
        shown.extend(note.as_deref());
        shown.extend(texts(&excerpt.tail));
        let ours = screen(&shown.join("\n"));
        assert_ne!(ours.trim_end(), naive.trim_end(), "{}", hostile.name);
        // And the naive terminal shows ours as it is: there is nothing in it that acts.
        let seen: Vec<&str> = ours.lines().map(str::trim_end).collect();
        let meant: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
        assert_eq!(seen.join("\n").trim_end(), meant.join("\n").trim_end(), "{}", hostile.name);
    }
}

#[test]
fn s4_what_is_longer_than_the_screen_can_be_allowed_only_when_all_of_it_was_reached() {
    let mut long = 0;
    for hostile in corpus().iter().filter(|hostile| hostile.long) {
        let fields = command(&hostile.text());
        let layout = Layout::new(&fields, COLUMNS.into());
        let excerpt = layout.excerpt(ROWS.into());
        assert!(!excerpt.complete && excerpt.note().is_some(), "{}", hostile.name);
        let mut reached = Reached::default();
        reached.saw(&excerpt.head);
        reached.saw(&excerpt.tail);
        assert!(!reached.is_complete(&layout), "{}", hostile.name);
        let pages = layout.pages(ROWS.into());
        for page in &pages {
            assert!(!reached.is_complete(&layout), "{}: page {} of {}", hostile.name, page.number, page.of);
            reached.saw(&page.rows);
        }
        assert!(reached.is_complete(&layout), "{}", hostile.name);
        let all: String = fields[0].lines.concat();
        let paged: String = pages
            .iter()
            .flat_map(|page| &page.rows)
            .filter(|row| row.field == 0 && row.line.is_some())
            .map(|row| row.text.as_str())
            .collect();
        assert_eq!(paged, all, "{}", hostile.name);
        assert!(all.ends_with("rm -rf ~"), "{}", hostile.name);
        assert!(messages(&fields, 4096).len() > 1);
        long += 1;
    }
    assert!(long >= 4);
}

#[test]
fn s4_names_that_are_not_what_they_look_like_come_with_a_warning() {
    let mut warned = 0;
    for hostile in corpus() {
        let Some(expected) = &hostile.warning else { continue };
        let fields = command(&hostile.text());
        assert_eq!(fields[0].label, "warning", "{}: {fields:?}", hostile.name);
        assert!(fields[0].marked && fields[0].complete);
        let found = fields[0].lines.iter().any(|line| line.contains(expected));
        assert!(found, "{}: {:?}", hostile.name, fields[0].lines);
        fields[0].lines.iter().for_each(|line| assert_safe(line));
        // The command itself stays as it is.
        assert_eq!(fields[1].lines, [hostile.text()], "{}", hostile.name);
        warned += 1;
    }
    assert!(warned >= 15);
}

#[test]
fn s4_hostile_inputs_are_shown_or_refused() {
    for hostile in inputs() {
        if let Some(bytes) = &hostile.bytes {
            let bytes: Vec<u8> = (0..bytes.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap())
                .collect();
            assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_err(), "{}", hostile.name);
            let lossy = String::from_utf8_lossy(&bytes);
            let action = Action { tool: "Bash", input: Some(&lossy), ..Action::default() };
            let shown: String = display(&action).into_iter().flat_map(|field| field.lines).collect();
            assert!(shown.contains('\u{fffd}'), "{}: {shown}", hostile.name);
            assert_inert(&shown);
            continue;
        }
        let (input, shows) = (hostile.input.unwrap(), hostile.shows.unwrap());
        let fields = display(&Action { tool: "Bash", input: Some(&input), ..Action::default() });
        let mut shown = fields.iter().flat_map(|field| field.lines.iter().chain([&field.label]));
        assert!(shown.any(|line| line.contains(&shows)), "{}: {fields:?}", hostile.name);
        for field in &fields {
            assert_framed(&field.label);
            field.lines.iter().for_each(|line| assert_framed(line));
        }
    }
}

#[test]
fn s4_every_hostile_text_is_visibly_marked() {
    for hostile in corpus().into_iter().filter(Hostile::is_marked) {
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
    for hostile in corpus().into_iter().filter(Hostile::is_marked) {
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
        let fields: Vec<_> = fields.into_iter().filter(|field| field.label != "warning").collect();
        assert_eq!(fields.len(), 3);
        assert!(fields.iter().all(|field| field.marked), "{}", hostile.name);
        fields.iter().flat_map(|field| &field.lines).for_each(|line| assert_safe(line));
        assert_inert(&summary(&outside, 100));
    }
}
