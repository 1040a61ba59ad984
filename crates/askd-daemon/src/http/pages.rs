//! Open asks a few at a time: who reads slowly, or not at all, holds their ids and nothing else of them.

use askd_core::AskId;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::engine::Engine;
use crate::masked::Sight;
use crate::view::Shot;

use super::body;

/// So many are looked up at a time.
const AT_A_TIME: usize = 64;
/// A piece of a list is sent when it has so many bytes.
const PIECE: usize = 64 * 1024;

/// What is left of a list of asks.
pub(super) struct Pages {
    engine: Engine,
    asks: Box<[AskId]>,
    next: usize,
}

/// The daemon is.
pub(super) struct Stopping;

impl Pages {
    pub(super) fn new(engine: &Engine, asks: Vec<AskId>) -> Self {
        Self { engine: engine.clone(), asks: asks.into_boxed_slice(), next: 0 }
    }

    fn is_one(&self) -> bool {
        self.asks.len() <= AT_A_TIME
    }

    /// The next of them as they are now, without those that are over since; `None`: that was all.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Shot>>, Stopping> {
        if self.next == self.asks.len() {
            return Ok(None);
        }
        let end = self.asks.len().min(self.next + AT_A_TIME);
        let page = self.asks[self.next..end].to_vec();
        self.next = end;
        self.engine.still_open(page).await.map(Some).ok_or(Stopping)
    }

    /// All of them as one array, each as its reader may see it. A long one is looked up and rendered as it is read; the
    /// connection breaks off when the daemon stops meanwhile.
    pub(super) async fn list(mut self, sight: Sight) -> Result<Response, Stopping> {
        if self.is_one() {
            return Ok(body::list(self.next().await?.unwrap_or_default(), sight));
        }
        let (pieces, receiver) = mpsc::channel::<std::io::Result<Bytes>>(1);
        tokio::spawn(async move {
            let mut piece = "[".to_owned();
            let mut between = "";
            loop {
                match self.next().await {
                    Ok(Some(shots)) => {
                        for shot in shots {
                            piece.push_str(between);
                            between = ",";
                            piece.push_str(&shot.json(sight));
                            if piece.len() >= PIECE
                                && pieces.send(Ok(std::mem::take(&mut piece).into())).await.is_err()
                            {
                                return;
                            }
                        }
                    }
                    Ok(None) => break,
                    Err(Stopping) => {
                        let _ = pieces.send(Err(std::io::Error::other("the daemon stops"))).await;
                        return;
                    }
                }
            }
            piece.push(']');
            let _ = pieces.send(Ok(piece.into())).await;
        });
        let body = Body::from_stream(ReceiverStream::new(receiver));
        Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
    }
}
