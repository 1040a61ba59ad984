//! What a request line says, as typed values; what is wrong with it is told as every other refusal.

use axum::extract::{FromRequestParts, Path as AnyPath, Query as AnyQuery};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Refused;

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match AnyQuery::from_request_parts(parts, state).await {
            Ok(AnyQuery(value)) => Ok(Self(value)),
            Err(error) => Err(Refused::malformed(format!(
                "the query is not what this route takes: {}",
                error.body_text()
            ))),
        }
    }
}

/// The variable parts of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match AnyPath::from_request_parts(parts, state).await {
            Ok(AnyPath(value)) => Ok(Self(value)),
            Err(error) => Err(Refused::malformed(format!(
                "the path is not what this route takes: {}",
                error.body_text()
            ))),
        }
    }
}
