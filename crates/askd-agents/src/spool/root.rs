//! Which directory the root of a tree is. Its path may lead to another one at any moment; what was seen in one tree must
//! not be answered in another.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use askd_client::spool::{Dir, PlaceError};

/// Where the path of a tree leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Nowhere,
    There((u64, u64)),
    /// To another directory, while the one that is known is somewhere else. `None`: and that one cannot be used.
    Elsewhere(Option<(u64, u64)>),
}

/// The root of one tree.
#[derive(Debug)]
pub(super) struct Root {
    /// As it was named. It may lead through links; what is below it may not.
    named: PathBuf,
    /// The real path, as far as there is one.
    pub(super) path: PathBuf,
    known: RefCell<Option<Known>>,
    /// It is used wherever it is, and whatever its path leads to.
    is_held: bool,
}

#[derive(Debug)]
struct Known {
    id: (u64, u64),
    /// Open as long as something in it is served: one that was removed may be made again by anybody, one that was moved
    /// may not.
    dir: Option<Dir>,
}

impl Root {
    pub(super) fn new(dir: &Path) -> Self {
        Self { named: dir.to_path_buf(), path: real(dir), known: RefCell::new(None), is_held: false }
    }

    /// Finds out where the path leads now.
    pub(super) fn resolve(&mut self) -> Result<Way, PlaceError> {
        self.path = real(&self.named);
        let dir = match Dir::root(&self.path) {
            Ok(Some(dir)) => dir,
            Ok(None) => return Ok(Way::Nowhere),
            Err(_) if self.leads_elsewhere() => return Ok(Way::Elsewhere(None)),
            Err(error) => return Err(error),
        };
        let id = dir.identity()?;
        Ok(if self.is_known(&dir, id, false) { Way::There(id) } else { Way::Elsewhere(Some(id)) })
    }

    /// `None`: it is not there.
    pub(super) fn open(&self) -> Result<Option<Dir>, PlaceError> {
        match self.held() {
            Some(dir) => dir.map(Some),
            None => Dir::root(&self.path)?.map(|dir| self.checked(dir, false)).transpose(),
        }
    }

    /// Opens it, and makes it when it is not there.
    pub(super) fn make(&self) -> Result<Dir, PlaceError> {
        if let Some(dir) = self.held() {
            return dir;
        }
        let (dir, made) = Dir::make_or_open_root(&self.path)?;
        self.checked(dir, made)
    }

    /// Something in it is served from here on (or nothing any more): another directory does not take its place then.
    pub(super) fn serves(&self, on: bool) {
        if let Some(known) = &mut *self.known.borrow_mut() {
            match (on, &known.dir) {
                (true, None) => {
                    let dir = Dir::root(&self.path).ok().flatten();
                    known.dir = dir.filter(|dir| dir.identity().is_ok_and(|id| id == known.id));
                }
                (false, Some(_)) => known.dir = None,
                _ => {}
            }
        }
    }

    /// From here on this directory is used, wherever it is. False: it is not known where that is.
    pub(super) fn hold(&mut self) -> bool {
        self.is_held = self.known.borrow().as_ref().is_some_and(|known| known.dir.is_some());
        self.is_held
    }

    /// It was removed, wherever it was.
    pub(super) fn was_removed(&self) -> bool {
        let known = self.known.borrow();
        known.as_ref().and_then(|known| known.dir.as_ref()).is_some_and(|dir| !dir.is_there())
    }

    fn held(&self) -> Option<Result<Dir, PlaceError>> {
        let known = self.known.borrow();
        known.as_ref().filter(|_| self.is_held)?.dir.as_ref().map(Dir::again)
    }

    /// Whatever its path leads to is another one than the one that is served, which still exists.
    fn leads_elsewhere(&self) -> bool {
        let known = self.known.borrow();
        let Some(Known { id, dir: Some(dir) }) = &*known else { return false };
        let there = self.path.symlink_metadata().map(|meta| (meta.dev(), meta.ino()));
        dir.is_there() && there.is_ok_and(|there| there != *id)
    }

    fn checked(&self, dir: Dir, made: bool) -> Result<Dir, PlaceError> {
        if self.is_known(&dir, dir.identity()?, made) {
            return Ok(dir);
        }
        let name = self.path.display().to_string();
        Err(PlaceError::NotOurs { name, why: "is another directory than the one that is served".to_owned() })
    }

    /// One that was made here, or that somebody made in the place of one that was removed, goes on as the one before.
    fn is_known(&self, dir: &Dir, id: (u64, u64), made: bool) -> bool {
        let mut known = self.known.borrow_mut();
        match &*known {
            Some(known) if known.id == id => return true,
            Some(Known { dir: Some(before), .. }) if !made && before.is_there() => return false,
            _ => {}
        }
        let serves = known.as_ref().is_some_and(|known| known.dir.is_some());
        *known = Some(Known { id, dir: dir.again().ok().filter(|_| serves) });
        true
    }
}

/// The path without links, of as much of it as is there.
fn real(dir: &Path) -> PathBuf {
    let found =
        dir.ancestors().find_map(|above| Some((above.canonicalize().ok()?, dir.strip_prefix(above).ok()?)));
    match found {
        // The text of the path counts: it must not end in a slash at one time and not at another.
        Some((real, below)) if below.as_os_str().is_empty() => real,
        Some((real, below)) => real.join(below),
        None => dir.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn f14_a_tree_is_the_same_one_by_whatever_way_it_is_reached_and_whenever_the_way_came_to_be() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::create_dir(at("dot")).unwrap();
        let mut early = Root::new(&at("link/tree"));
        assert_eq!(early.resolve().unwrap(), Way::Nowhere);
        symlink(at("dot"), at("link")).unwrap();
        let mut late = Root::new(&at("link/tree"));
        let mut plain = Root::new(&at("dot/tree"));
        let text = |root: &Root| root.path.as_os_str().to_owned();
        assert_eq!(text(&late), text(&plain));
        plain.make().unwrap();
        let it = plain.resolve().unwrap();
        assert!(matches!(it, Way::There(_)));
        assert_eq!((early.resolve().unwrap(), late.resolve().unwrap()), (it, it));
        assert_eq!((text(&early), text(&late)), (text(&plain), text(&plain)));
        assert_eq!(text(&plain), at("dot/tree").canonicalize().unwrap().as_os_str());
    }

    #[test]
    fn f14_another_directory_takes_the_place_of_one_that_was_removed_and_of_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let mut root = Root::new(&at("tree"));
        root.make().unwrap();
        root.serves(true);
        // Removed, and made again by somebody, or by this.
        fs::remove_dir(at("tree")).unwrap();
        assert!(root.was_removed());
        fs::create_dir(at("tree")).unwrap();
        assert!(root.open().unwrap().is_some());
        fs::remove_dir(at("tree")).unwrap();
        root.make().unwrap();
        let id = root.open().unwrap().unwrap().identity().unwrap();
        assert_eq!(root.resolve().unwrap(), Way::There(id));

        // Moved away, and another one is there.
        fs::rename(at("tree"), at("moved")).unwrap();
        assert_eq!(root.resolve().unwrap(), Way::Nowhere);
        fs::create_dir(at("tree")).unwrap();
        assert!(matches!(root.resolve().unwrap(), Way::Elsewhere(Some(other)) if other != id));
        fs::set_permissions(at("tree"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(root.resolve().unwrap(), Way::Elsewhere(None), "nor can it be used");
        fs::set_permissions(at("tree"), fs::Permissions::from_mode(0o700)).unwrap();
        for failed in [root.open().map(drop), root.make().map(drop)] {
            assert!(failed.unwrap_err().to_string().contains("another directory"));
        }
        // Back again it is the same one; held, it is used wherever it is.
        fs::remove_dir(at("tree")).unwrap();
        symlink(at("moved"), at("tree")).unwrap();
        assert_eq!(root.resolve().unwrap(), Way::There(id));
        fs::set_permissions(at("moved"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(root.resolve().is_err(), "the very one is not to be used either then");
        fs::set_permissions(at("moved"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_file(at("tree")).unwrap();
        fs::create_dir(at("tree")).unwrap();
        assert!(root.hold());
        root.make().unwrap().make("here").unwrap();
        assert!(at("moved/here").is_dir() && !at("tree/here").exists());
        assert!(!root.was_removed());
        fs::remove_dir_all(at("moved")).unwrap();
        assert!(root.was_removed());

        // Where nothing is served nothing is kept open, and any directory will do.
        let mut idle = Root::new(&at("tree"));
        idle.make().unwrap();
        fs::rename(at("tree"), at("moved")).unwrap();
        fs::create_dir(at("tree")).unwrap();
        assert!(matches!(idle.resolve().unwrap(), Way::There(_)));
        assert!(!idle.hold());
    }
}
