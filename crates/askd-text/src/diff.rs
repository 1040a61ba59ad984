//! Two texts as one list of lines: what goes, what comes, what stays. Nothing is left out, so both texts can be read
//! back from it.

use std::collections::HashMap;

use crate::safe::safe_lines;

/// How many steps the search for the shortest diff may take before the rest is shown as replaced.
const MAX_STEPS: usize = 2_000_000;
/// With more lines than this, between what is the same at both ends, no shorter diff is searched for.
const MAX_LINES: usize = 100_000;
/// How many changed lines the search looks for at most; its memory grows with the square.
const MAX_CHANGES: usize = 1_000;

/// What becomes of a run of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Removed,
    Added,
}

/// A diff, ready to be shown.
pub(crate) struct Diff {
    /// Safe lines that begin with `+`, `-` or, where nothing changes, a space; a kept empty line is empty.
    pub(crate) lines: Vec<String>,
    pub(crate) marked: bool,
    pub(crate) added: usize,
    pub(crate) removed: usize,
}

/// The lines of a text: nothing at all is no line, and `a\n` is two, the second of them empty.
fn split(text: &str) -> Vec<&str> {
    if text.is_empty() { Vec::new() } else { text.split('\n').collect() }
}

pub(crate) fn diff(old: &str, new: &str) -> Diff {
    let (old, new) = (split(old), split(new));
    let mut diff = Diff { lines: Vec::new(), marked: false, added: 0, removed: 0 };
    for (fate, lines) in runs(&old, &new) {
        let sign = match fate {
            Fate::Kept => ' ',
            Fate::Removed => '-',
            Fate::Added => '+',
        };
        match fate {
            Fate::Kept => {}
            Fate::Removed => diff.removed += lines.len(),
            Fate::Added => diff.added += lines.len(),
        }
        let safe = safe_lines(&lines.join("\n"));
        diff.marked |= safe.marked;
        diff.lines.extend(
            safe.lines.into_iter().map(|line| {
                if fate == Fate::Kept && line.is_empty() { line } else { format!("{sign}{line}") }
            }),
        );
    }
    diff
}

/// Runs of lines with the same fate, in order; removed lines come before the lines that replace them.
fn runs<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Fate, Vec<&'a str>)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_mid = &old_rest[..old_rest.len() - tail];
    let new_mid = &new_rest[..new_rest.len() - tail];

    let mut runs = Runs::default();
    runs.push(Fate::Kept, &old[..head]);
    let (mut x, mut y) = (0, 0);
    for (at_old, at_new, len) in matches(old_mid, new_mid) {
        runs.push(Fate::Removed, &old_mid[x..at_old]);
        runs.push(Fate::Added, &new_mid[y..at_new]);
        runs.push(Fate::Kept, &old_mid[at_old..at_old + len]);
        (x, y) = (at_old + len, at_new + len);
    }
    runs.push(Fate::Removed, &old_mid[x..]);
    runs.push(Fate::Added, &new_mid[y..]);
    runs.push(Fate::Kept, &old[old.len() - tail..]);
    runs.0
}

#[derive(Default)]
struct Runs<'a>(Vec<(Fate, Vec<&'a str>)>);

impl<'a> Runs<'a> {
    fn push(&mut self, fate: Fate, lines: &[&'a str]) {
        if lines.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some((last, run)) if *last == fate => run.extend(lines),
            _ => self.0.push((fate, lines.to_vec())),
        }
    }
}

/// Equal runs of two lists of lines that differ at both ends: start in the old one, start in the new one, length.
/// Myers' greedy search for the shortest edit; none at all when it would take too long.
fn matches(old: &[&str], new: &[&str]) -> Vec<(usize, usize, usize)> {
    if old.is_empty() || new.is_empty() || old.len() + new.len() > MAX_LINES {
        return Vec::new();
    }
    let mut numbers = HashMap::new();
    let mut number = |line| {
        let next = numbers.len();
        *numbers.entry(line).or_insert(next)
    };
    let a: Vec<usize> = old.iter().copied().map(&mut number).collect();
    let b: Vec<usize> = new.iter().copied().map(&mut number).collect();
    search(&a, &b).unwrap_or_default()
}

fn search(a: &[usize], b: &[usize]) -> Option<Vec<(usize, usize, usize)>> {
    let most = MAX_CHANGES.min(a.len() + b.len());
    // How far each diagonal (x - y, shifted to be positive) has come, counted in lines of `a`.
    let mut reach = vec![0_usize; 2 * most + 3];
    let mut trace: Vec<Vec<usize>> = Vec::new();
    let mut steps = 0;
    for changes in 0..=most {
        // Only the diagonals that this many changes can reach.
        trace.push(reach[most + 1 - changes..=most + 1 + changes].to_vec());
        for shifted in (most + 1 - changes..=most + 1 + changes).step_by(2) {
            let down = shifted == most + 1 - changes
                || shifted != most + 1 + changes && reach[shifted - 1] < reach[shifted + 1];
            let mut x = if down { reach[shifted + 1] } else { reach[shifted - 1] + 1 };
            // x - y = shifted - (most + 1); a diagonal beside the lists has no y.
            let Some(mut y) = (x + most + 1).checked_sub(shifted) else { continue };
            while x < a.len() && y < b.len() && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
                steps += 1;
            }
            steps += 1;
            reach[shifted] = x;
            if x >= a.len() && y >= b.len() {
                return Some(walk_back(a, b, &trace));
            }
        }
        if steps > MAX_STEPS {
            return None;
        }
    }
    None
}

/// Follows the search back from the end and collects the equal lines.
fn walk_back(a: &[usize], b: &[usize], trace: &[Vec<usize>]) -> Vec<(usize, usize, usize)> {
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    let (mut x, mut y) = (a.len(), b.len());
    for (changes, reach) in trace.iter().enumerate().rev() {
        // In this slice the diagonal k = x - y stands at k + changes.
        let middle = x + changes;
        let at = middle.wrapping_sub(y);
        let (from_x, from_y) = if changes == 0 {
            (0, 0)
        } else {
            let down = at == 0 || at != 2 * changes && reach[at - 1] < reach[at + 1];
            let x = if down { reach[at + 1] } else { reach[at - 1] };
            let beside = if down { at + 1 } else { at - 1 };
            (x, x + changes - beside)
        };
        let mut len = 0;
        while x > from_x && y > from_y {
            (x, y, len) = (x - 1, y - 1, len + 1);
        }
        if len > 0 {
            found.push((x, y, len));
        }
        (x, y) = (from_x, from_y);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(old: &str, new: &str) -> Vec<String> {
        diff(old, new).lines
    }

    #[test]
    fn only_what_changes_is_marked() {
        assert_eq!(lines("a\nb\nc", "a\nB\nc"), [" a", "-b", "+B", " c"]);
        assert_eq!(lines("", "a\nb"), ["+a", "+b"]);
        assert_eq!(lines("a", ""), ["-a"]);
        assert_eq!(lines("a\n", "a"), [" a", "-"]);
        assert_eq!(lines("a\n\nb", "a\n\nc"), [" a", "", "-b", "+c"]);
        assert_eq!(lines("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc"), {
            ["-a", "-b", " c", "+b", " a", " b", "-b", " a", "+c"]
        });
        assert_eq!(lines("same", "same"), [" same"]);
        assert!(lines("", "").is_empty());
    }

    #[test]
    fn s4_every_line_is_safe() {
        let diff = diff("x\u{202e}\n\ty", &format!("x\n{}z", "\n".repeat(9)));
        assert_eq!(diff.lines, ["-x\\u{202e}", "-⇥y", "+x", "+\\u{9 empty lines}", "+z"]);
        assert!(diff.marked);
        assert_eq!((diff.added, diff.removed), (11, 2));
    }

    #[test]
    fn s7_a_diff_that_is_too_hard_is_a_replacement() {
        let old: String = (0..20_000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..20_000).map(|n| format!("new {n}\n")).collect();
        let diff = diff(&old, &new);
        assert_eq!((diff.removed, diff.added), (20_000, 20_000));
        assert_eq!(diff.lines.len(), 40_001);
    }

    /// The length of the longest common subsequence, the slow and sure way.
    fn longest_common(a: &[&str], b: &[&str]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut corner = 0;
            for (at, y) in b.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if x == y { corner + 1 } else { above.max(row[at]) };
                corner = above;
            }
        }
        row[b.len()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn s4_both_texts_can_be_read_back_and_the_diff_is_shortest(
            old in prop::collection::vec("[abc]?", 0..14),
            new in prop::collection::vec("[abc]?", 0..14),
        ) {
            let (old, new) = (old.join("\n"), new.join("\n"));
            let (old, new) = (split(&old), split(&new));
            let (mut was, mut is, mut kept) = (Vec::<&str>::new(), Vec::<&str>::new(), 0);
            for (fate, lines) in runs(&old, &new) {
                match fate {
                    Fate::Kept => {
                        was.extend(&lines);
                        is.extend(&lines);
                        kept += lines.len();
                    }
                    Fate::Removed => was.extend(&lines),
                    Fate::Added => is.extend(&lines),
                }
            }
            prop_assert_eq!(&was, &old);
            prop_assert_eq!(&is, &new);
            prop_assert_eq!(kept, longest_common(&old, &new));
        }
    }
}
