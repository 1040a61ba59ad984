//! What keeps pi's asks from askd, and its subagents ungated: read from pi's own files, nothing is changed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The extension that asks.
pub const EXTENSION: &str = "@gotgenes/pi-permission-system";
/// The folder names that it has.
const FOLDER: &str = "pi-permission-system";
/// First version that takes a named parent as enough of a sign that it is in a subagent.
const PARENT_IS_ENOUGH: u64 = 27;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Where the extension is; none: pi gates nothing.
    pub extension: Option<PathBuf>,
    pub version: Option<String>,
    /// pi-subagents is installed.
    pub subagents: bool,
    /// The extension is where pi-subagents looks for it: else its children load none, and run everything unasked.
    pub reaches_subagents: bool,
    /// Every ask is turned into a yes by the extension itself.
    pub yolo: bool,
    /// The extension's own settings cannot be read.
    pub broken: Option<String>,
}

impl Findings {
    /// Headless children ask only when they are told to be subagents besides being named a parent.
    pub fn needs_hint(&self) -> bool {
        let major =
            self.version.as_deref().and_then(|version| version.split('.').next()?.parse::<u64>().ok());
        major.is_none_or(|major| major < PARENT_IS_ENOUGH)
    }
}

/// The forwarding directory of this agent directory.
pub fn forwarding_dir(agent_dir: &Path) -> PathBuf {
    agent_dir.join("sessions/permission-forwarding")
}

/// Looks into pi's agent directory, and into the project's own settings.
pub fn look(agent_dir: &Path, project: Option<&Path>) -> Findings {
    let package = |dir: PathBuf| dir.join("package.json").is_file().then_some(dir);
    let module = package(agent_dir.join("npm/node_modules").join(EXTENSION));
    let folder = package(agent_dir.join("extensions").join(FOLDER));
    let reaches_subagents = module.is_some() || folder.is_some();
    let mut named = Vec::new();
    named.extend(settings(&agent_dir.join("settings.json"), agent_dir));
    if let Some(project) = project {
        let dir = project.join(".pi");
        named.extend(package(dir.join("npm/node_modules").join(EXTENSION)));
        named.extend(package(dir.join("extensions").join(FOLDER)));
        named.extend(settings(&dir.join("settings.json"), &dir));
    }
    let extension = module.or(folder).or_else(|| named.into_iter().next());
    let version = extension.as_deref().and_then(|dir| {
        let text = fs::read(dir.join("package.json")).ok()?;
        Some(serde_json::from_slice::<Value>(&text).ok()?.get("version")?.as_str()?.to_owned())
    });
    let installed = |name: &str| agent_dir.join("npm/node_modules").join(name).join("package.json").is_file();
    let subagents =
        installed("pi-subagents") || agent_dir.join("extensions/pi-subagents/package.json").is_file();
    let mut found = Findings { extension, version, subagents, reaches_subagents, ..Findings::default() };
    let config = agent_dir.join("extensions").join(FOLDER).join("config.json");
    match fs::read(&config).map(|text| serde_json::from_slice::<Value>(&text)) {
        Ok(Ok(Value::Object(config))) => found.yolo = config.get("yoloMode") == Some(&Value::Bool(true)),
        Ok(Ok(_)) => found.broken = Some(format!("{}: is no object", config.display())),
        Ok(Err(error)) => found.broken = Some(format!("{}: {error}", config.display())),
        Err(_) => {}
    }
    found
}

/// Where the extension is that a settings file names, as a package or as a path.
fn settings(file: &Path, beside: &Path) -> Option<PathBuf> {
    let settings: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let lists = ["packages", "extensions"].into_iter().filter_map(|name| settings.get(name)?.as_array());
    let source = |entry: &Value| entry.as_str().or_else(|| entry.get("source")?.as_str()).map(str::to_owned);
    let named = lists.flatten().filter_map(source).find(|source| source.contains(FOLDER))?;
    Some(if named.contains(':') { PathBuf::from(named) } else { beside.join(named) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_child_that_would_load_no_extension_is_told_apart() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        assert_eq!(look(dir, None), Findings::default(), "pi gates nothing");
        write(dir.join("settings.json"), r#"{"packages":["npm:@gotgenes/pi-permission-system"]}"#);
        write(dir.join("npm/node_modules/pi-subagents/package.json"), "{}");
        let found = look(dir, None);
        assert!(
            found.extension.is_some() && found.subagents && !found.reaches_subagents && found.needs_hint()
        );
        // A folder with settings alone is no extension.
        write(dir.join("extensions/pi-permission-system/config.json"), r#"{"yoloMode":true}"#);
        let found = look(dir, None);
        assert!(found.yolo && !found.reaches_subagents);
        write(dir.join("npm/node_modules").join(EXTENSION).join("package.json"), r#"{"version":"27.0.1"}"#);
        let found = look(dir, None);
        assert!(found.reaches_subagents && !found.needs_hint());
        write(dir.join("extensions/pi-permission-system/config.json"), "{");
        assert!(look(dir, None).broken.is_some());
    }
}
