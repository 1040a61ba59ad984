//! Which surfaces are attached: those with an open event stream, however many streams and whatever ends them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use askd_core::event::SurfaceInfo;
use askd_core::{Command, SurfaceId};

use crate::engine::Engine;

/// Streams that are open, by surface.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachments(Arc<Mutex<BTreeMap<String, usize>>>);

impl Attachments {
    pub(crate) fn is_attached(&self, surface: &str) -> bool {
        self.0.lock().is_ok_and(|streams| streams.contains_key(surface))
    }

    /// Attaches until the returned guard is dropped.
    pub(crate) fn attach(&self, engine: &Engine, surface: SurfaceId, info: SurfaceInfo) -> Attached {
        if let Ok(mut streams) = self.0.lock() {
            *streams.entry(surface.0.clone()).or_default() += 1;
            // Under the lock, so that it cannot be overtaken by the end of another stream of the same surface.
            engine.tell(Command::AttachSurface { surface: surface.clone(), info });
        }
        Attached { of: self.clone(), engine: engine.clone(), surface }
    }
}

/// One stream of a surface. The last one to go detaches it.
#[derive(Debug)]
pub(crate) struct Attached {
    of: Attachments,
    engine: Engine,
    surface: SurfaceId,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Ok(mut streams) = self.of.0.lock() else { return };
        let left = streams.get_mut(&self.surface.0).map_or(0, |count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == 0 {
            streams.remove(&self.surface.0);
            self.engine.tell(Command::DetachSurface { surface: self.surface.clone() });
        }
    }
}
