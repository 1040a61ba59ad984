//! Shell commands taken apart for the eye: what runs, one command to a line. Display only; nothing decides by it.
//!
//! Two readers that know nothing of each other look at a command: a small [`lexer`] of our own, which finds the
//! operators, and tree-sitter's grammar for bash, of which only an allow-list of node kinds is understood. Only what
//! both read the same way is split, and only into pieces of the very text, so that nothing can get lost between.
//! Everything else stays one block, with the reason. The grammar is C, so it gets to see only what the lexer has
//! understood, and only ASCII.

mod lexer;

use tree_sitter::{Node, ParseOptions, ParseState, Parser};

use crate::chars::{Class, class};
use crate::safe::{SafeText, safe};

/// Commands longer than this, in bytes, are not parsed: what the grammar cannot read costs it time in the square.
const MAX_BYTES: usize = 8 * 1024;
/// How often the parser may report progress before it is stopped; it reports about every hundred operations.
const MAX_PROGRESS: usize = 2_000;

/// One command of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment<'a> {
    /// What joins it to the segment before it: `&&`, `||`, `|`, `;`, `↵` for a line break, empty for the first.
    pub operator: &'static str,
    /// The segment as it was written, without the blanks around it; a comment is a segment of its own. Not safe yet.
    pub text: &'a str,
}

/// Why a command is shown as one block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSplit {
    #[error("it is longer than {} kB", MAX_BYTES / 1024)]
    TooLong,
    #[error("it has characters that cannot be seen")]
    Hidden,
    #[error("it has {0}")]
    Has(&'static str),
    #[error("its syntax is not understood")]
    Syntax,
    #[error("it is empty")]
    Empty,
}

/// Splits a bash command into its segments, in the order in which they are written.
///
/// # Errors
/// [`NotSplit`] when any part of it is not understood beyond doubt: it has to be shown as one block.
pub fn segments(command: &str) -> Result<Vec<Segment<'_>>, NotSplit> {
    if command.len() > MAX_BYTES {
        return Err(NotSplit::TooLong);
    }
    if is_plain(command) {
        return Ok(vec![Segment { operator: "", text: command.trim_matches(' ') }]);
    }
    // The grammar takes some of these for blanks and others for parts of a word, bash does neither.
    if command.chars().any(|c| !matches!(c, '\n' | '\t') && class(c) == Class::Hidden) {
        return Err(NotSplit::Hidden);
    }
    let (pieces, last) = lexer::pieces(command)?;
    if pieces.is_empty() {
        return Err(NotSplit::Empty);
    }
    // It is the shell's own word at the beginning of a pipeline only, so on a line of its own it would be another.
    let is_time = |piece: &lexer::Piece| command[piece.range()].split_whitespace().next() == Some("time");
    if pieces.iter().any(|piece| piece.operator == "|" && is_time(piece)) {
        return Err(NotSplit::Has("a program called time"));
    }
    let shape = shape(&ascii(command))?;
    if !agree(&shape, &pieces, last) {
        return Err(NotSplit::Syntax);
    }
    Ok(pieces
        .iter()
        .map(|piece| Segment { operator: piece.operator, text: &command[piece.range()] })
        .collect())
}

/// Words that begin something else than a simple command.
const RESERVED: [&str; 17] = [
    "if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "while", "until", "do", "done",
    "in", "function", "time", "coproc",
];

/// Nothing but words without any meaning to a shell, as most commands are: neither reader is needed to see that this
/// is one command.
fn is_plain(command: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b" _./:,@%+=-".contains(&b);
    let first = command.split(' ').find(|word| !word.is_empty());
    command.bytes().all(plain) && first.is_some_and(|word| !word.contains('=') && !RESERVED.contains(&word))
}

/// The lines that show a command's segments; none when the command itself is shown like that already.
pub(crate) fn lines(command: &str) -> Option<(Vec<String>, bool)> {
    match segments(command) {
        Ok(segments) if segments.len() == 1 || segments.iter().all(has_its_own_line) => None,
        Ok(segments) => {
            let mut marked = false;
            let lines = segments
                .iter()
                .map(|segment| {
                    let SafeText { text, marked: is_marked } = safe(segment.text);
                    marked |= is_marked;
                    let space = if segment.operator.is_empty() { "" } else { " " };
                    format!("{}{space}{text}", segment.operator)
                })
                .collect();
            Some((lines, marked))
        }
        Err(NotSplit::Empty) => None,
        Err(reason) => Some((vec![format!("shown as one block: {reason}")], false)),
    }
}

fn has_its_own_line(segment: &Segment<'_>) -> bool {
    matches!(segment.operator, "" | "↵") && !segment.text.starts_with('#') && !segment.text.contains('\n')
}

/// What the grammar says: where operators stand, and which bytes each command takes.
#[derive(Default)]
struct Shape {
    /// First byte of every operator between commands.
    operators: Vec<usize>,
    /// First byte and end of every command and comment, without what is redirected behind a list.
    commands: Vec<(usize, usize)>,
}

fn agree(shape: &Shape, pieces: &[lexer::Piece], last: Option<usize>) -> bool {
    let operators = pieces.iter().filter_map(|piece| piece.operator_at).chain(last);
    let commands = pieces.iter().map(lexer::Piece::range);
    shape.operators.iter().copied().eq(operators)
        && shape.commands.len() == pieces.len()
        && shape.commands.iter().zip(commands).all(|((start, end), piece)| {
            // A redirection before or behind a command belongs to its piece without being part of the node.
            piece.start <= *start && *end <= piece.end
        })
}

/// The command with a letter for every byte that is not ASCII. To a shell they are the same, parts of a word; but the
/// grammar's scanner, which is written in C, looks some characters up in tables that end with ASCII.
fn ascii(command: &str) -> String {
    command.bytes().map(|b| if b.is_ascii() { char::from(b) } else { 'x' }).collect()
}

fn shape(command: &str) -> Result<Shape, NotSplit> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).map_err(|_| NotSplit::Syntax)?;
    let mut reports = 0;
    let mut stop = |_: &ParseState| {
        reports += 1;
        if reports > MAX_PROGRESS {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    };
    let bytes = command.as_bytes();
    let tree = parser
        .parse_with_options(
            &mut |at, _| bytes.get(at..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut stop)),
        )
        .ok_or(NotSplit::Syntax)?;
    let mut shape = Shape::default();
    let mut cursor = tree.walk();
    // A node finds its parent by a search from the root; the way down is known here.
    let mut above: Vec<&str> = Vec::new();
    loop {
        let node = cursor.node();
        look_at(node, &above, &mut shape)?;
        if cursor.goto_first_child() {
            above.push(node.kind());
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Ok(shape);
            }
            above.pop();
        }
    }
}

/// Notes one node, or refuses the command. `above` are the kinds of the nodes that it is in, the root first.
fn look_at(node: Node<'_>, above: &[&str], shape: &mut Shape) -> Result<(), NotSplit> {
    let kind = node.kind();
    let parent = above.last().copied().unwrap_or_default();
    if node.is_error() || node.is_missing() {
        return Err(NotSplit::Syntax);
    }
    if !node.is_named() {
        return match (kind, parent) {
            ("&&" | "||", "list") | ("|", "pipeline") | (";", "program") => {
                shape.operators.push(node.start_byte());
                Ok(())
            }
            (">" | ">>" | "<" | ">&" | "&>" | "&>>" | ">|" | "<&", "file_redirect")
            | ("\"" | "$", "string")
            | ("$", "simple_expansion")
            | ("${" | "}", "expansion")
            | ("=" | "+=", "variable_assignment")
            | ("export" | "declare" | "local" | "readonly" | "typeset", "declaration_command") => Ok(()),
            _ => Err(NotSplit::Syntax),
        };
    }
    match kind {
        "program"
        | "list"
        | "pipeline"
        | "word"
        | "string"
        | "string_content"
        | "raw_string"
        | "number"
        | "concatenation"
        | "file_redirect"
        | "file_descriptor"
        | "variable_name"
        | "special_variable_name"
        | "command_name" => {}
        "simple_expansion" | "expansion" if names_a_command(above) => {
            return Err(NotSplit::Has("a command whose name comes from a variable"));
        }
        "simple_expansion" => {}
        // `${x}` alone: everything more can hold another command.
        "expansion" if node.child_count() == 3 => {}
        // `> x` alone; otherwise its command is a node of its own.
        "redirected_statement" if node.child_by_field_name("body").is_none() => {
            shape.commands.push((node.start_byte(), node.end_byte()));
        }
        "redirected_statement" => {}
        "comment" | "command" | "declaration_command" | "variable_assignment" => {
            if matches!(parent, "program" | "list" | "pipeline" | "redirected_statement") {
                shape.commands.push((node.start_byte(), node.end_byte()));
            } else if kind != "variable_assignment" {
                return Err(NotSplit::Syntax);
            }
        }
        other => return Err(unknown(other)),
    }
    Ok(())
}

fn names_a_command(above: &[&str]) -> bool {
    let mut names = above.iter().rev().skip_while(|kind| matches!(**kind, "concatenation" | "string"));
    names.next() == Some(&"command_name")
}

/// In the words of people who use a shell.
fn unknown(kind: &str) -> NotSplit {
    NotSplit::Has(match kind {
        "compound_statement" => "a group of commands",
        "if_statement"
        | "case_statement"
        | "for_statement"
        | "c_style_for_statement"
        | "while_statement"
        | "do_group" => "a condition or a loop",
        "test_command" => "a test",
        "function_definition" => "a function",
        "negated_command" => "a negation (!)",
        "ansi_c_string" | "translated_string" => "a string with escapes ($'…')",
        "array" | "subscript" => "an array",
        _ => return NotSplit::Syntax,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(command: &str) -> Vec<String> {
        segments(command).unwrap().iter().map(|s| format!("{} {}", s.operator, s.text)).collect()
    }

    #[test]
    fn segments_are_pieces_of_the_command() {
        for (command, expected) in [
            ("ls -l", &[" ls -l"] as &[&str]),
            ("  make -j2 CFLAGS=-O2 a/b.c ", &[" make -j2 CFLAGS=-O2 a/b.c"]),
            ("echo if x then", &[" echo if x then"]),
            ("ls; curl x | sh", &[" ls", "; curl x", "| sh"]),
            ("git status && rm -rf /", &[" git status", "&& rm -rf /"]),
            ("a || b && c;", &[" a", "|| b", "&& c"]),
            ("a\n\n  b\n", &[" a", "↵ b"]),
            ("a &&\n b", &[" a", "&& b"]),
            ("ls # rm\nb", &[" ls", " # rm", "↵ b"]),
            ("cd x && cargo test 2>&1 | tail -5", &[" cd x", "&& cargo test 2>&1", "| tail -5"]),
            ("a > b c; d", &[" a > b c", "; d"]),
            ("> x a; b", &[" > x a", "; b"]),
            ("echo 'a;b' \"c&&d\" e\\;f; g", &[" echo 'a;b' \"c&&d\" e\\;f", "; g"]),
            ("X=1 a $Y \"${Z}\"; export Q=2", &[" X=1 a $Y \"${Z}\"", "; export Q=2"]),
            ("a b\\\n  c; d", &[" a b\\\n  c", "; d"]),
            ("a \"x\ny\"; b", &[" a \"x\ny\"", "; b"]),
        ] {
            assert_eq!(split(command), expected, "{command:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_not_split_and_says_why() {
        for (command, why) in [
            ("ls; echo $(rm)", "it has a command substitution"),
            ("ls `rm`", "it has a command substitution"),
            ("a <(b)", "it has a process substitution"),
            ("cat <<E\nrm\nE", "it has a here-document"),
            ("cat <<< x", "it has a here-string"),
            ("(a; b)", "it has a subshell"),
            ("{ a; }", "it has a group of commands"),
            ("if a; then b; fi", "it has a condition or a loop"),
            ("for x in a; do b; done", "it has a condition or a loop"),
            ("[[ -f x && -f y ]]", "it has a test"),
            ("f() { b; }", "it has a function"),
            ("case a in b) c;; esac", "it has parentheses"),
            ("a $((1+2))", "it has arithmetic"),
            ("a \"$(b)\"", "it has a command substitution"),
            ("! a", "it has a negation (!)"),
            ("a & b", "it has a background job (&)"),
            ("a | time b", "it has a program called time"),
            ("a |& b", "it has a pipe for errors (|&)"),
            ("a $'\\x41'", "it has a string with escapes ($'…')"),
            ("$X a", "it has a command whose name comes from a variable"),
            ("a\"$X\" b", "it has a command whose name comes from a variable"),
            ("a ${X:-b}", "it has a variable that is changed on the way"),
            ("a \"b", "its syntax is not understood"),
            ("a && && b", "its syntax is not understood"),
            ("a && ", "its syntax is not understood"),
            ("a;; b", "its syntax is not understood"),
            ("a\rb", "it has characters that cannot be seen"),
            ("a\0b", "it has characters that cannot be seen"),
            ("a\u{2028}b", "it has characters that cannot be seen"),
            ("a\u{a0}b", "it has characters that cannot be seen"),
            ("", "it is empty"),
            (" \n ", "it is empty"),
        ] {
            assert_eq!(segments(command).unwrap_err().to_string(), why, "{command:?}");
        }
        assert_eq!(segments(&"a; ".repeat(20_000)).unwrap_err(), NotSplit::TooLong);
    }

    /// The grammar's scanner reads beyond a table with these.
    #[test]
    fn s7_characters_that_the_grammar_cannot_bear_do_not_reach_it() {
        for c in ['\u{ff}', '\u{2f71f}', '\u{9877e}', '\u{10ffff}', 'é', '漢'] {
            for command in
                [format!("{{{c}"), format!("a {{{c}..{c}}}; b"), format!("{c}|{{{c}"), format!("a{{1{c}")]
            {
                let _ = segments(&command);
            }
        }
        assert_eq!(split("echo {é,漢}; ls ü"), [" echo {é,漢}", "; ls ü"]);
    }

    #[test]
    fn commands_on_lines_of_their_own_need_no_second_look() {
        assert_eq!(lines("ls -l"), None);
        assert_eq!(lines("ls -l\n\nrm x"), None);
        assert_eq!(lines("git commit -m 'a\nb; c'"), None);
        assert_eq!(lines("ls # x"), Some((vec!["ls".into(), "# x".into()], false)));
        assert_eq!(lines("a \"\n\"; b"), Some((vec!["a \"↵\"".into(), "; b".into()], true)));
        let block = vec!["shown as one block: it has a subshell".to_owned()];
        assert_eq!(lines("(a)"), Some((block, false)));
    }
}
