//! The Rust sources of the tree, searched for test functions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Where tests can be.
const PLACES: [&str; 3] = ["crates", "tests", "xtask"];

/// Every function name found, with what is known of it.
#[derive(Default)]
pub(crate) struct Functions {
    found: BTreeMap<String, Found>,
}

/// One function name; functions of one name in several files are counted together.
#[derive(Default, Clone, Copy)]
struct Found {
    /// Has a test attribute somewhere.
    test: bool,
    /// Has `#[ignore]` everywhere that it is a test.
    ignored: bool,
    /// Named a second time: called, or handed to a macro that makes tests.
    used: bool,
}

/// What a name in the requirement map turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A test, or a function that tests share.
    Test,
    /// A test that is never run.
    Ignored,
    /// A function that no test reaches.
    Unused,
    /// Nothing of that name.
    Missing,
}

impl Functions {
    /// Reads all Rust files of the workspace.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut texts = Vec::new();
        for place in PLACES {
            collect(&root.join(place), &mut texts)?;
        }
        Ok(Self::of(texts.iter().map(String::as_str)))
    }

    /// The functions of these source texts.
    pub(crate) fn of<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut functions = Self::default();
        for text in texts.clone() {
            functions.define(text);
        }
        let mut words: BTreeMap<&str, usize> = BTreeMap::new();
        for text in texts {
            for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if functions.found.contains_key(word) {
                    *words.entry(word).or_default() += 1;
                }
            }
        }
        for (name, count) in words {
            if let Some(found) = functions.found.get_mut(name) {
                found.used = count > 1;
            }
        }
        functions
    }

    fn define(&mut self, text: &str) {
        let (mut test, mut ignored) = (false, false);
        for line in text.lines() {
            let line = line.trim();
            if let Some(attribute) = line.strip_prefix("#[") {
                let path = attribute.split(['(', ']', ' ', '=']).next().unwrap_or_default();
                test |= path == "test" || path.ends_with("::test");
                ignored |= path == "ignore";
                continue;
            }
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            if let Some(name) = function_name(line) {
                let seen = self.found.entry(name.to_owned()).or_default();
                let first = !seen.test;
                seen.test |= test;
                if test {
                    seen.ignored = ignored && (first || seen.ignored);
                }
            }
            (test, ignored) = (false, false);
        }
    }

    /// What this name is.
    pub(crate) fn kind(&self, name: &str) -> Kind {
        match self.found.get(name) {
            None => Kind::Missing,
            Some(found) if found.test && found.ignored => Kind::Ignored,
            Some(found) if found.test || found.used => Kind::Test,
            Some(_) => Kind::Unused,
        }
    }

    /// All names that are tests, in order.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &str> {
        self.found.iter().filter(|(_, found)| found.test && !found.ignored).map(|(name, _)| name.as_str())
    }
}

/// The name of the function that this line begins to define.
fn function_name(line: &str) -> Option<&str> {
    let at = if line.starts_with("fn ") { 0 } else { line.find(" fn ")? + 1 };
    let before = &line[..at];
    let words = ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe", "extern", "\"C\""];
    if !before.split_whitespace().all(|word| words.contains(&word)) {
        return None;
    }
    let rest = &line[at + "fn ".len()..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

fn collect(dir: &Path, texts: &mut Vec<String>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("{} cannot be listed", dir.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("{} cannot be listed", dir.display()))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !["target", "node_modules"].contains(&entry.file_name().to_string_lossy().as_ref()) {
                collect(&path, texts)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(
                fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?,
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str, name: &str) -> Kind {
        Functions::of([text].into_iter()).kind(name)
    }

    #[test]
    fn test_attributes_of_every_form_count() {
        assert_eq!(kind("#[test]\nfn a() {}", "a"), Kind::Test);
        assert_eq!(kind("  #[tokio::test(flavor = \"current_thread\")]\n  async fn a() {}", "a"), Kind::Test);
        assert_eq!(kind("#[test]\n// why\n#[should_panic]\n\nfn a() {}", "a"), Kind::Test);
    }

    #[test]
    fn a_plain_function_counts_only_where_it_is_used() {
        assert_eq!(kind("pub(crate) fn a() {}", "a"), Kind::Unused);
        assert_eq!(kind("pub fn a() {}\nsuite!(a, b);", "a"), Kind::Test);
        assert_eq!(kind("fn a() {}", "b"), Kind::Missing);
        assert_eq!(kind("// call fn a() {}", "a"), Kind::Missing);
        assert_eq!(kind("#[test]\nstruct S;\nfn a() {}", "a"), Kind::Unused);
    }

    #[test]
    fn an_ignored_test_is_told_apart() {
        assert_eq!(kind("#[test]\n#[ignore]\nfn a() {}", "a"), Kind::Ignored);
        assert_eq!(kind("#[ignore = \"slow\"]\n#[test]\nfn a() {}", "a"), Kind::Ignored);
        assert_eq!(kind("#[test]\n#[ignore]\nfn a() {}\n#[test]\nfn a() {}", "a"), Kind::Test);
    }
}
