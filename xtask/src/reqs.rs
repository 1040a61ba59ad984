//! The requirement map: docs/requirements.md says for each requirement whether it is served and by which tests.
//! [`Map`] is its table, [`Map::check`] says what is wrong with it.

use std::collections::BTreeSet;

use crate::sources::{Functions, Kind};

/// The requirement list: letter of the group and its highest number.
const GROUPS: [(char, u32); 5] = [('F', 15), ('C', 14), ('A', 17), ('T', 20), ('S', 7)];

/// One requirement, `C5`.
type Id = (char, u32);

/// One line of docs/requirements.md.
enum Line {
    Row(Row),
    /// Anything that is not a row; kept as it is.
    Other(String),
}

/// One row of the table: `| C5 | text | served | `test`, `test` |`.
struct Row {
    id: Id,
    text: String,
    status: String,
    tests: Vec<String>,
}

/// The whole file.
pub(crate) struct Map {
    lines: Vec<Line>,
    faults: Vec<String>,
}

impl Map {
    /// Reads the file's text. A row that cannot be read is a fault that [`Map::check`] reports.
    pub(crate) fn parse(text: &str) -> Self {
        let mut map = Self { lines: Vec::new(), faults: Vec::new() };
        for (at, line) in text.lines().enumerate() {
            match parse_row(line) {
                None => map.lines.push(Line::Other(line.to_owned())),
                Some(Ok(row)) => map.lines.push(Line::Row(row)),
                Some(Err(fault)) => {
                    map.faults.push(format!("line {}: {fault}", at + 1));
                    map.lines.push(Line::Other(line.to_owned()));
                }
            }
        }
        map
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().filter_map(|line| match line {
            Line::Row(row) => Some(row),
            Line::Other(_) => None,
        })
    }

    /// All that is wrong, one sentence each; empty when the map is true.
    pub(crate) fn check(&self, functions: &Functions) -> Vec<String> {
        let mut faults = self.faults.clone();
        let mut seen = BTreeSet::new();
        for row in self.rows() {
            let id = name(row.id);
            if !is_known(row.id) {
                faults.push(format!("{id} is not in the requirement list"));
            }
            if !seen.insert(row.id) {
                faults.push(format!("{id} has more than one row"));
            }
            match row.status.as_str() {
                "served" if row.tests.is_empty() => faults.push(format!("{id} is served but names no test")),
                "served" | "later" => {}
                other => faults.push(format!("{id}: status {other:?} is neither `served` nor `later`")),
            }
            for test in &row.tests {
                match functions.kind(test) {
                    Kind::Test => {}
                    Kind::Ignored => {
                        faults.push(format!("{id}: test {test} is ignored, so it proves nothing"))
                    }
                    Kind::Unused => faults.push(format!("{id}: {test} is a function that no test reaches")),
                    Kind::Missing => faults.push(format!("{id}: test {test} does not exist")),
                }
            }
        }
        for id in all().filter(|id| !seen.contains(id)) {
            faults.push(format!("{} has no row", name(id)));
        }
        faults
    }

    /// Tests whose names begin with the id of a requirement and are not in its row.
    pub(crate) fn unlisted(&self, functions: &Functions) -> Vec<(String, String)> {
        let mut unlisted = Vec::new();
        for test in functions.tests() {
            for id in ids_in(test) {
                if !self.rows().any(|row| row.id == id && row.tests.iter().any(|known| known == test)) {
                    unlisted.push((name(id), test.to_owned()));
                }
            }
        }
        unlisted
    }

    /// Writes unlisted tests into their rows and takes out those that are gone. A status stays as it is.
    pub(crate) fn fill(&mut self, functions: &Functions) {
        let unlisted = self.unlisted(functions);
        for line in &mut self.lines {
            let Line::Row(row) = line else { continue };
            row.tests.retain(|test| functions.kind(test) != Kind::Missing);
            let id = name(row.id);
            row.tests.extend(unlisted.iter().filter(|(of, _)| *of == id).map(|(_, test)| test.clone()));
            row.tests.sort();
        }
    }

    /// The file's text again.
    pub(crate) fn print(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Other(other) => text.push_str(other),
                Line::Row(row) => {
                    let tests: Vec<_> = row.tests.iter().map(|test| format!("`{test}`")).collect();
                    let cells = [&name(row.id), &row.text, &row.status, &tests.join(", ")];
                    for cell in cells {
                        text.push_str(if cell.is_empty() { "|" } else { "| " });
                        text.push_str(cell);
                        text.push(' ');
                    }
                    text.push('|');
                }
            }
            text.push('\n');
        }
        text
    }

    /// How many rows are served, and how many there are.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.rows().filter(|row| row.status == "served").count(), self.rows().count())
    }
}

/// `None` for a line that is no row of the table; its head and rule are none either.
fn parse_row(line: &str) -> Option<Result<Row, String>> {
    let inner = line.trim().strip_prefix('|')?;
    let cells = cells(inner.strip_suffix('|').unwrap_or(inner));
    let id = parse_id(cells.first()?)?;
    let [_, text, status, tests] = cells.as_slice() else {
        return Some(Err(format!("{} has {} cells, not 4", name(id), cells.len())));
    };
    let mut names = Vec::new();
    for test in tests.split(',').map(str::trim).filter(|test| !test.is_empty()) {
        let Some(test) = test.strip_prefix('`').and_then(|test| test.strip_suffix('`')) else {
            return Some(Err(format!("{}: test {test:?} is not between backticks", name(id))));
        };
        names.push(test.to_owned());
    }
    Some(Ok(Row { id, text: text.clone(), status: status.clone(), tests: names }))
}

/// The cells of a row; `\|` is part of a cell.
fn cells(inner: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in inner.chars() {
        if c == '|' && !escaped {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            cell.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn parse_id(cell: &str) -> Option<Id> {
    let mut chars = cell.chars();
    let group = chars.next().filter(char::is_ascii_uppercase)?;
    let digits = chars.as_str();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((group, digits.parse().ok()?))
}

/// The ids that a test's name begins with: `c5_c6_late_answer` proves something of C5 and C6.
fn ids_in(test: &str) -> impl Iterator<Item = Id> {
    test.split('_').map_while(|part| parse_id(&part.to_uppercase()).filter(|id| is_known(*id)))
}

fn is_known((group, number): Id) -> bool {
    GROUPS.iter().any(|(known, last)| *known == group && (1..=*last).contains(&number))
}

fn all() -> impl Iterator<Item = Id> {
    GROUPS.iter().flat_map(|(group, last)| (1..=*last).map(|number| (*group, number)))
}

fn name((group, number): Id) -> String {
    format!("{group}{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with a row for every id, all later, but for the given rows.
    fn map(rows: &[&str]) -> String {
        let mut text = "# Map\n\n| id | must be true | status | tests |\n|---|---|---|---|\n".to_owned();
        for id in all().map(name) {
            let start = format!("| {id} |");
            match rows.iter().find(|row| row.starts_with(&start)) {
                Some(row) => text.push_str(row),
                None => text.push_str(&format!("| {id} | something | later | |")),
            }
            text.push('\n');
        }
        text
    }

    fn functions() -> Functions {
        Functions::of(["#[test]\nfn c5_twice() {}\n#[test]\n#[ignore]\nfn c6_slow() {}\n"].into_iter())
    }

    #[test]
    fn a_true_map_has_no_faults() {
        let text = map(&["| C5 | an answer \\| twice | served | `c5_twice` |"]);
        let read = Map::parse(&text);
        assert_eq!(read.check(&functions()), Vec::<String>::new());
        assert_eq!(read.print(), text);
        assert_eq!(read.count(), (1, 73));
    }

    #[test]
    fn every_fault_is_found() {
        let cases = [
            ("| C5 | x | served | |", "C5 is served but names no test"),
            ("| C5 | x | served | `gone` |", "C5: test gone does not exist"),
            ("| C6 | x | served | `c6_slow` |", "C6: test c6_slow is ignored, so it proves nothing"),
            ("| C5 | x | done | `c5_twice` |", "C5: status \"done\" is neither `served` nor `later`"),
            ("| C5 | x | later | `gone` |", "C5: test gone does not exist"),
        ];
        for (row, fault) in cases {
            assert_eq!(Map::parse(&map(&[row])).check(&functions()), [fault]);
        }
    }

    #[test]
    fn rows_that_are_missing_doubled_unknown_or_broken_are_found() {
        let whole = map(&[]);
        let missing = whole.replace("| S7 | something | later | |\n", "");
        assert_eq!(Map::parse(&missing).check(&functions()), ["S7 has no row"]);
        let doubled = format!("{whole}| S7 | again | later | |\n");
        assert_eq!(Map::parse(&doubled).check(&functions()), ["S7 has more than one row"]);
        let unknown = format!("{whole}| S8 | new | later | |\n");
        assert_eq!(Map::parse(&unknown).check(&functions()), ["S8 is not in the requirement list"]);
        let bare = map(&["| C5 | x | served | c5_twice |"]);
        let faults = Map::parse(&bare).check(&functions());
        assert!(faults[0].contains("C5: test \"c5_twice\" is not between backticks"), "{faults:?}");
        let short = map(&["| C5 | x | later |"]);
        let faults = Map::parse(&short).check(&functions());
        assert!(faults[0].ends_with("C5 has 3 cells, not 4"), "{faults:?}");
    }

    #[test]
    fn tests_are_filled_in_by_their_names() {
        let functions = Functions::of(["#[test]\nfn c5_c6_both() {}\n#[test]\nfn c99_none() {}"].into_iter());
        let mut map = Map::parse(&map(&["| C5 | x | later | `c5_gone` |"]));
        let unlisted = map.unlisted(&functions);
        assert_eq!(unlisted, [("C5".into(), "c5_c6_both".into()), ("C6".into(), "c5_c6_both".into())]);
        map.fill(&functions);
        assert!(
            map.print()
                .contains("| C5 | x | later | `c5_c6_both` |\n| C6 | something | later | `c5_c6_both` |")
        );
        assert!(map.unlisted(&functions).is_empty());
    }
}
