//! The lines that differ between two texts, for showing what would be written.

/// Beyond this many lines the whole text is shown as changed: nobody reads a longer one anyway.
const MOST_LINES: usize = 3000;
/// Unchanged lines shown around a change.
const AROUND: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    Old,
    New,
}

/// Lines of `old` behind `-`, of `new` behind `+`, and a few unchanged ones around, with `…` for what is left out.
pub(crate) fn diff(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let lines = if old.len().max(new.len()) > MOST_LINES { all(&old, &new) } else { common(&old, &new) };
    let near = |at: usize| {
        let from = at.saturating_sub(AROUND);
        lines[from..(at + AROUND + 1).min(lines.len())].iter().any(|(side, _)| *side != Side::Both)
    };
    let mut out = String::new();
    let mut left_out = false;
    for (at, (side, line)) in lines.iter().enumerate() {
        let sign = match side {
            Side::Both if near(at) => ' ',
            Side::Both => {
                left_out = true;
                continue;
            }
            Side::Old => '-',
            Side::New => '+',
        };
        if std::mem::take(&mut left_out) {
            out.push_str("  …\n");
        }
        out.push_str(&format!("{sign} {}\n", askd_text::safe(line).text));
    }
    if left_out && !out.is_empty() {
        out.push_str("  …\n");
    }
    out
}

fn all<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Side, &'a str)> {
    let old = old.iter().map(|line| (Side::Old, *line));
    old.chain(new.iter().map(|line| (Side::New, *line))).collect()
}

/// The longest common run of lines, in order.
fn common<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Side, &'a str)> {
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = if old[i] == new[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::with_capacity(old.len().max(new.len()));
    while i < old.len() || j < new.len() {
        let same = i < old.len() && j < new.len() && old[i] == new[j];
        if same {
            lines.push((Side::Both, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j >= new.len()
            || (i < old.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            lines.push((Side::Old, old[i]));
            i += 1;
        } else {
            lines.push((Side::New, new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown_with_its_surroundings() {
        let old = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4\n}\n";
        let new = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4,\n  \"e\": 5\n}\n";
        assert_eq!(
            diff(old, new),
            "  …\n    \"b\": 2,\n    \"c\": 3,\n-   \"d\": 4\n+   \"d\": 4,\n+   \"e\": 5\n  }\n"
        );
        assert_eq!(diff(old, old), "");
        assert_eq!(diff("", "x\u{1b}\n"), "+ x\\u{1b}\n");
    }
}
