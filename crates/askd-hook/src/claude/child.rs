//! What Claude Code writes down about a child beside the transcript. Hooks do not say who started a child; this file does.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::claude::event::{Event, is_plain_id};

/// Longest file that is read; real ones have some hundred bytes.
const MOST_BYTES: u64 = 64 * 1024;

/// `<transcript without .jsonl>/subagents/agent-<agent_id>.meta.json`. It is there at every tool call of the child, not
/// yet when the child starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Child {
    pub(crate) description: Option<String>,
    /// The call of the parent that started it.
    pub(crate) tool_use_id: Option<String>,
    /// Only from the second level on, and not in older versions.
    pub(crate) parent_agent_id: Option<String>,
    pub(crate) spawn_depth: Option<u32>,
    /// `foreground` or `background`; older versions do not say.
    pub(crate) request_shape: Option<String>,
}

impl Child {
    /// Reads the file; everything is unknown when there is none.
    pub(crate) fn of(event: &Event<'_>) -> Self {
        Self::read(event).unwrap_or_default()
    }

    pub(crate) fn is_background(&self) -> Option<bool> {
        match self.request_shape.as_deref() {
            Some("background") => Some(true),
            Some("foreground") => Some(false),
            _ => None,
        }
    }

    fn read(event: &Event<'_>) -> Option<Self> {
        let path = meta_path(event.transcript_path.as_deref()?, event.agent_id.as_deref()?)?;
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// `None` for an id that could lead out of the directory.
fn meta_path(transcript: &str, agent_id: &str) -> Option<PathBuf> {
    let session = Path::new(transcript.strip_suffix(".jsonl")?);
    (is_plain_id(agent_id) && session.is_absolute())
        .then(|| session.join("subagents").join(format!("agent-{agent_id}.meta.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_make_a_path() {
        let right = "/p/s/subagents/agent-a1b2.meta.json";
        assert_eq!(meta_path("/p/s.jsonl", "a1b2").as_deref(), Some(Path::new(right)));
        for (transcript, id) in [
            ("/p/s.jsonl", "../x"),
            ("/p/s.jsonl", ""),
            ("p/s.jsonl", "a"),
            ("/p/s.txt", "a"),
            ("/p/s.jsonl", "a/b"),
        ] {
            assert_eq!(meta_path(transcript, id), None);
        }
    }

    #[test]
    fn both_versions_of_the_file_are_read() {
        let newer = r#"{"agentType":"general-purpose","isBuiltIn":true,"description":"first child","toolUseId":"toolu_1","parentAgentId":"a9","spawnDepth":2,"requestShape":"background","requestNonInteractive":true}"#;
        let child: Child = serde_json::from_str(newer).unwrap();
        assert_eq!(child.parent_agent_id.as_deref(), Some("a9"));
        assert_eq!((child.spawn_depth, child.is_background()), (Some(2), Some(true)));
        let older =
            r#"{"agentType":"general-purpose","description":"x","toolUseId":"toolu_1","spawnDepth":1}"#;
        let child: Child = serde_json::from_str(older).unwrap();
        assert_eq!((child.spawn_depth, child.is_background()), (Some(1), None));
    }
}
