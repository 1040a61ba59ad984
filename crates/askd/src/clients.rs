//! Configurations of ACP clients: puts `askd acp --` in front of the agents in them, and takes it out again. Pure; reads
//! and writes no file, and leaves every other byte as it is.

use std::ops::Range;
use std::path::{Path, PathBuf};

use askd_hook::json::{Kind, Node, Syntax};

/// A client whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Zed,
    Acpx,
}

/// An agent in a client's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its command line without askd; none: the client has it from somewhere else, as a registry.
    pub(crate) agent: Option<Vec<String>>,
    /// It runs behind askd.
    pub(crate) behind: bool,
    /// By a line that does not begin with askd (`env X=1 askd acp -- agent`): not for setup to change.
    pub(crate) by_another: bool,
}

/// Why a configuration was not touched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientError {
    NotJson { line: usize },
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotJson { line } => write!(f, "line {line} is not JSON as the client reads it"),
        }
    }
}

impl Client {
    pub(crate) const ALL: [Self; 2] = [Self::Zed, Self::Acpx];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zed => "Zed",
            Self::Acpx => "acpx",
        }
    }

    /// What `askd setup` calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Zed => "zed",
            Self::Acpx => "acpx",
        }
    }

    /// Its configuration of one person. `config_home`: `XDG_CONFIG_HOME`, if that is set.
    pub(crate) fn file(self, home: &Path, config_home: Option<&Path>) -> PathBuf {
        match self {
            Self::Zed => config_home.unwrap_or(&home.join(".config")).join("zed/settings.json"),
            Self::Acpx => home.join(".acpx/config.json"),
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Zed => "agent_servers",
            Self::Acpx => "agents",
        }
    }

    /// An example of an entry for this agent behind askd.
    pub(crate) fn example(self, askd: &[String], agent: &[String]) -> String {
        let words: Vec<String> = askd.iter().chain(agent).map(|word| quote(word)).collect();
        let (first, rest) = words
            .split_first()
            .map_or((String::new(), String::new()), |(first, rest)| (first.clone(), rest.join(", ")));
        match self {
            Self::Zed => format!(
                "{{\n  \"agent_servers\": {{\n    \"my agent\": {{\n      \"type\": \"custom\",\n      \"command\": {first},\n      \"args\": [{rest}]\n    }}\n  }}\n}}"
            ),
            Self::Acpx => format!(
                "{{\n  \"agents\": {{\n    \"my-agent\": {{\n      \"argv\": [{first}, {rest}]\n    }}\n  }}\n}}"
            ),
        }
    }

    /// The agents that the configuration names.
    pub(crate) fn entries(self, text: &str) -> Result<Vec<Entry>, ClientError> {
        let root = parse(text)?;
        let entries = root.get(self.key()).map_or(&[][..], Node::members);
        Ok(entries
            .iter()
            .map(|member| {
                let words = Line::of(self, &member.value).map(|line| line.words());
                let behind = words.as_deref().is_some_and(|words| inside(words).is_some());
                let by_another =
                    behind && words.as_deref().is_some_and(|words| self::behind(words).is_none());
                let agent = words.map(|words| match inside(&words) {
                    Some(agent) => words[agent..].to_vec(),
                    None => words,
                });
                Entry { name: member.key.clone(), agent, behind, by_another }
            })
            .collect())
    }

    /// The text with every agent behind `askd` (program, `acp`, places, `--`). One that is behind it already keeps its
    /// other flags.
    pub(crate) fn wrap(self, text: &str, askd: &[String]) -> Result<String, ClientError> {
        self.put(text, |_, words| {
            let Some(agent) = behind(words) else {
                return inside(words).is_none().then(|| askd.to_vec());
            };
            let (ours, end) = askd.split_at(askd.len().saturating_sub(1));
            let own = flags(&words[2..agent - 1]);
            Some([ours, &own, end].concat())
        })
    }

    /// The text as it was before setup: without askd, but where a line of `before` had it already, with those words.
    pub(crate) fn restored(self, text: &str, before: &str) -> Result<String, ClientError> {
        let root = parse(before)?;
        let members = root.get(self.key()).map_or(&[][..], Node::members);
        self.put(text, |name, now| {
            let was = members.iter().rfind(|member| member.key == name)?;
            let words = Line::of(self, &was.value)?.words();
            let agent = behind(&words).filter(|_| behind(now).is_some())?;
            Some(words[..agent].to_vec())
        })
    }

    /// The text with what `before` says in front of each agent, by the entry's name and present line; none: nothing.
    fn put(
        self,
        text: &str,
        before: impl Fn(&str, &[String]) -> Option<Vec<String>>,
    ) -> Result<String, ClientError> {
        let (old, bare) = (parse(text)?, self.unwrap(text)?);
        let new = parse(&bare)?;
        let members = |root: &Node| root.get(self.key()).map_or(&[][..], Node::members).to_vec();
        let mut edits = Vec::new();
        for (was, member) in members(&old).iter().zip(members(&new)) {
            let words = Line::of(self, &was.value).map(|line| line.words()).unwrap_or_default();
            if let Some(line) = Line::of(self, &member.value)
                && let Some(askd) = before(&member.key, &words)
            {
                line.put_before(&askd, &mut edits);
            }
        }
        Ok(apply(&bare, edits))
    }

    /// The text without askd.
    pub(crate) fn unwrap(self, text: &str) -> Result<String, ClientError> {
        let root = parse(text)?;
        let mut edits = Vec::new();
        for member in root.get(self.key()).map_or(&[][..], Node::members) {
            if let Some(line) = Line::of(self, &member.value) {
                line.take_out(&mut edits);
            }
        }
        Ok(apply(text, edits))
    }
}

fn parse(text: &str) -> Result<Node, ClientError> {
    if text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty() {
        return Ok(Node { span: 0..text.len(), kind: Kind::Object(Vec::new()) });
    }
    Node::parse(text, Syntax::Comments).map_err(|error| ClientError::NotJson { line: error.line })
}

/// A command line in a configuration: a command with arguments, or one list.
enum Line<'a> {
    Command { command: &'a Node, args: Option<&'a Node> },
    List(&'a Node),
}

type Edit = (Range<usize>, String);

impl<'a> Line<'a> {
    fn of(client: Client, entry: &'a Node) -> Option<Self> {
        if let Some(list) = entry.get("argv") {
            return list.texts().filter(|words| !words.is_empty()).map(|_| Self::List(list));
        }
        let command = entry.get("command")?;
        // acpx also takes a whole line in one text; that is not taken apart.
        command.text().filter(|text| !text.is_empty() && (client == Client::Zed || !text.contains(' ')))?;
        let args = entry.get("args");
        match args {
            Some(args) => args.texts().map(|_| Self::Command { command, args: Some(args) }),
            None => Some(Self::Command { command, args: None }),
        }
    }

    fn words(&self) -> Vec<String> {
        let (first, rest) = match self {
            Self::Command { command, args } => (command.text(), args.and_then(Node::texts)),
            Self::List(list) => (None, list.texts()),
        };
        first.into_iter().chain(rest.unwrap_or_default()).map(str::to_owned).collect()
    }

    fn put_before(&self, askd: &[String], edits: &mut Vec<Edit>) {
        let Some((program, flags)) = askd.split_first() else { return };
        let listed = |words: &[&str]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(", ");
        match self {
            Self::Command { command, args } => {
                let mut before: Vec<&str> = flags.iter().map(String::as_str).collect();
                before.extend(command.text());
                match args {
                    Some(args) => {
                        let comma = if args.items().is_empty() { "" } else { ", " };
                        let at = args.items().first().map_or(args.span.start + 1, |first| first.span.start);
                        edits.push((at..at, listed(&before) + comma));
                        edits.push((command.span.clone(), quote(program)));
                    }
                    None => edits.push((
                        command.span.clone(),
                        format!("{}, \"args\": [{}]", quote(program), listed(&before)),
                    )),
                }
            }
            Self::List(list) => {
                let at = list.items().first().map_or(list.span.start + 1, |first| first.span.start);
                let words: Vec<&str> = askd.iter().map(String::as_str).collect();
                edits.push((at..at, listed(&words) + ", "));
            }
        }
    }

    fn take_out(&self, edits: &mut Vec<Edit>) {
        let words = self.words();
        let Some(agent) = behind(&words) else { return };
        match self {
            Self::Command { command, args: Some(args) } => {
                let items = args.items();
                edits.push((command.span.clone(), quote(&words[agent])));
                edits.push((without(items, agent, args), String::new()));
            }
            Self::Command { args: None, .. } => {}
            Self::List(list) => edits.push((without(list.items(), agent, list), String::new())),
        }
    }
}

/// The place of the first `count` items, with what parts them from the next.
fn without(items: &[Node], count: usize, list: &Node) -> Range<usize> {
    let start = items.first().map_or(list.span.start + 1, |first| first.span.start);
    let end = match (items.get(count), count.checked_sub(1).and_then(|last| items.get(last))) {
        (Some(next), _) => next.span.start,
        (None, Some(last)) => last.span.end,
        (None, None) => start,
    };
    start..end
}

/// Where the agent's own words begin in a line that askd stands before.
fn behind(words: &[String]) -> Option<usize> {
    let program = Path::new(words.first()?).file_name()?;
    if program != "askd" || words.get(1).map(String::as_str) != Some("acp") {
        return None;
    }
    let agent = words.iter().position(|word| word == "--")? + 1;
    (agent < words.len()).then_some(agent)
}

/// The same of a line in which askd stands anywhere, as behind `env`.
fn inside(words: &[String]) -> Option<usize> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    (0..end).find_map(|at| Some(at + behind(&words[at..])?))
}

/// What stands between `acp` and `--`, without the places, which are setup's.
fn flags(words: &[String]) -> Vec<String> {
    const PLACES: [&str; 3] = ["--dir", "--config-home", "--state-home"];
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if !PLACES.contains(&name) {
            kept.push(word.clone());
        } else if value.is_none() {
            words.next();
        }
    }
    kept
}

fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = text.to_owned();
    for (range, new) in edits.into_iter().rev() {
        out.replace_range(range, &new);
    }
    out
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn askd() -> Vec<String> {
        ["/opt/askd", "acp", "--dir", "/d", "--"].map(str::to_owned).into()
    }

    const ZED: &str = r#"// mine
{
  "theme": "One", /* } */
  "agent_servers": {
    "OpenCode": { "type": "custom", "command": "opencode", "args": [ "acp" ], "env": {} },
    "Bare": {"command": "agent"},
    "Empty": {"command": "agent2", "args": []},
    "claude-acp": { "type": "registry" }, // stays
  },
}
"#;

    #[test]
    fn askd_goes_before_every_agent_and_comes_out_again() {
        let with = Client::Zed.wrap(ZED, &askd()).unwrap();
        assert!(with.contains(
            r#""OpenCode": { "type": "custom", "command": "/opt/askd", "args": [ "acp", "--dir", "/d", "--", "opencode", "acp" ], "env": {} },"#
        ));
        assert!(
            with.contains(
                r#""Bare": {"command": "/opt/askd", "args": ["acp", "--dir", "/d", "--", "agent"]},"#
            )
        );
        assert_eq!(Client::Zed.wrap(&with, &askd()).unwrap(), with, "twice is once");
        let entries = Client::Zed.entries(&with).unwrap();
        let behind: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.behind)).collect();
        assert_eq!(behind, [("OpenCode", true), ("Bare", true), ("Empty", true), ("claude-acp", false)]);
        assert_eq!(entries[0].agent.as_deref(), Some(&["opencode".to_owned(), "acp".to_owned()][..]));
        assert_eq!(entries[3].agent, None);

        // Where the person has changed something since, only askd's words go.
        let changed = with.replace("\"One\"", "\"Two\"");
        let without = Client::Zed.unwrap(&changed).unwrap();
        let expected = ZED
            .replace("\"One\"", "\"Two\"")
            .replace(r#""Bare": {"command": "agent"}"#, r#""Bare": {"command": "agent", "args": []}"#);
        assert_eq!(without, expected);
    }

    #[test]
    fn a_list_of_words_and_another_place_of_askd() {
        let text = r#"{"agents": {"a": {"argv": ["node", "x.js"]}, "line": {"command": "npx agent acp"}}}"#;
        let with = Client::Acpx.wrap(text, &askd()).unwrap();
        assert_eq!(
            with,
            r#"{"agents": {"a": {"argv": ["/opt/askd", "acp", "--dir", "/d", "--", "node", "x.js"]}, "line": {"command": "npx agent acp"}}}"#
        );
        let moved: Vec<String> = ["/new/askd", "acp", "--"].map(str::to_owned).into();
        let again = Client::Acpx.wrap(&with, &moved).unwrap();
        assert!(again.contains(r#"["/new/askd", "acp", "--", "node", "x.js"]"#), "{again}");
        assert_eq!(Client::Acpx.unwrap(&again).unwrap(), text);
    }

    #[test]
    fn what_is_behind_askd_already_keeps_the_persons_own_flags() {
        let mine = r#"{"agent_servers": {"cx": {"command": "/usr/bin/askd", "args": ["acp", "--subagents", "translate", "--dir=/old", "--", "codex-acp"]}, "oc": {"command": "opencode", "args": ["acp"]}}}"#;
        let with = Client::Zed.wrap(mine, &askd()).unwrap();
        assert!(
            with.contains(
                r#""command": "/opt/askd", "args": ["acp", "--dir", "/d", "--subagents", "translate", "--", "codex-acp"]"#
            ),
            "{with}"
        );
        assert_eq!(Client::Zed.wrap(&with, &askd()).unwrap(), with, "twice is once");
        // Also when the person has changed something else since.
        let changed = with.replacen('{', "{\"theme\": 1, ", 1);
        let expected = mine.replacen('{', "{\"theme\": 1, ", 1);
        assert_eq!(Client::Zed.restored(&changed, mine).unwrap(), expected);
    }

    #[test]
    fn askd_behind_another_program_is_not_put_before_itself() {
        let text = r#"{"agent_servers": {"z": {"command": "env", "args": ["X=1", "askd", "acp", "--", "foo"]}, "n": {"command": "env", "args": ["--", "askd", "acp"]}}}"#;
        let with = Client::Zed.wrap(text, &askd()).unwrap();
        assert!(
            with.contains(r#""z": {"command": "env", "args": ["X=1", "askd", "acp", "--", "foo"]}"#),
            "{with}"
        );
        let entries = Client::Zed.entries(&with).unwrap();
        assert_eq!(entries[0].agent.as_deref(), Some(&["foo".to_owned()][..]));
        let told: Vec<_> = entries.iter().map(|entry| (entry.behind, entry.by_another)).collect();
        assert_eq!(told, [(true, true), (true, false)]);
    }

    #[test]
    fn what_is_no_configuration_is_not_touched() {
        assert_eq!(Client::Zed.wrap("{\n1", &askd()), Err(ClientError::NotJson { line: 2 }));
        for text in ["", "[]", "{}", r#"{"agent_servers": 1}"#, r#"{"agent_servers": {"a": {"command": 1}}}"#]
        {
            assert_eq!(Client::Zed.wrap(text, &askd()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn the_examples_are_what_the_clients_read() {
        for client in Client::ALL {
            let text = client.example(&askd(), &["agent".to_owned(), "acp".to_owned()]);
            let entries = client.entries(&text).unwrap();
            assert_eq!(entries.len(), 1);
            assert!(entries[0].behind);
        }
    }
}
