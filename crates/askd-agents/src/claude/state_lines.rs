//! How the agent is made to say whether it works, and which of those lines the host sees.

use std::ffi::OsString;

/// Lines for whoever asked for them; every version that is known has it. What the agent starts inherits it.
const EMIT: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";
/// Lines for the program at the other end alone, and marked as such. What the agent starts does not see it.
const READS: &str = "CLAUDE_CODE_SDK_READS_SESSION_STATE";
/// As true as `1`, and written so by nobody else: a wrapper that finds it below another agent knows whose wish it is.
const OURS: &str = "yEs";
/// The first version that is known to have [`READS`].
const FIRST_READS: [u64; 3] = [2, 1, 332];

/// Lines about the agent's state that the host sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateLines {
    /// All: it asked for them.
    All,
    /// Those that something else than this wrapper asked for, such as the settings of the agent.
    Others,
    /// None: what this wrapper asked for cannot be told from other wishes.
    None,
}

impl StateLines {
    /// Whether the host sees a line. `host_only`: the line says that it is for the program at the other end alone.
    pub(super) fn shows(self, host_only: bool) -> bool {
        match self {
            Self::All => true,
            Self::Others => !host_only,
            Self::None => false,
        }
    }
}

/// What an agent of this version finds in its environment besides what `var` tells of this process, and what its host
/// sees then.
pub(super) fn ask_for_state(
    version: Option<&str>,
    var: impl Fn(&str) -> Option<String>,
) -> (Vec<(String, OsString)>, StateLines) {
    let emit = var(EMIT);
    let inherited = emit.as_deref() == Some(OURS);
    if is_true(emit.as_deref()) && !inherited {
        return (Vec::new(), StateLines::All);
    }
    if version.is_some_and(knows_reads) {
        let mut env = vec![(READS.to_owned(), "1".into())];
        if inherited {
            // It would count for more.
            env.push((EMIT.to_owned(), "0".into()));
        }
        let shown = if is_true(var(READS).as_deref()) { StateLines::All } else { StateLines::Others };
        return (env, shown);
    }
    (vec![(EMIT.to_owned(), OURS.into())], StateLines::None)
}

fn knows_reads(version: &str) -> bool {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|text| text.parse::<u64>().ok());
    let numbers: Vec<u64> = numbers.by_ref().take(3).collect();
    numbers.as_slice() >= FIRST_READS.as_slice()
}

pub(super) fn is_true(value: Option<&str>) -> bool {
    let value = value.unwrap_or_default();
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(version: Option<&str>, set: &[(&str, &str)]) -> (Vec<String>, StateLines) {
        let var = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let (env, shown) = ask_for_state(version, var);
        (env.into_iter().map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect(), shown)
    }

    #[test]
    fn c1_a_host_sees_the_lines_about_the_state_that_somebody_else_asked_for() {
        let (emit, reads) = (format!("{EMIT}={OURS}"), format!("{READS}=1"));
        for (version, set, env, shown) in [
            (Some("2.1.332"), &[][..], vec![reads.clone()], StateLines::Others),
            (Some("2.2.0"), &[], vec![reads.clone()], StateLines::Others),
            (Some("3.0.0-rc.1"), &[], vec![reads.clone()], StateLines::Others),
            (Some("2.1.197"), &[], vec![emit.clone()], StateLines::None),
            (Some("1.9.400"), &[], vec![emit.clone()], StateLines::None),
            (None, &[], vec![emit.clone()], StateLines::None),
            (Some("nonsense"), &[], vec![emit.clone()], StateLines::None),
            // The host's own wishes.
            (Some("2.1.332"), &[(EMIT, "1")], vec![], StateLines::All),
            (Some("2.1.197"), &[(EMIT, "on")], vec![], StateLines::All),
            (Some("2.1.332"), &[(READS, "1")], vec![reads.clone()], StateLines::All),
            // One that this version does not know.
            (Some("2.1.197"), &[(READS, "1")], vec![emit.clone()], StateLines::None),
            (Some("2.1.332"), &[(EMIT, "0")], vec![reads.clone()], StateLines::Others),
            // Below an agent of another wrapper.
            (Some("2.1.332"), &[(EMIT, OURS)], vec![reads.clone(), format!("{EMIT}=0")], StateLines::Others),
            (Some("2.1.197"), &[(EMIT, OURS)], vec![emit.clone()], StateLines::None),
        ] {
            assert_eq!(ask(version, set), (env, shown), "{version:?} {set:?}");
        }
    }
}
