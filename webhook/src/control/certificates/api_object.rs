//! Reads one object of the API server together with the API server's time of day, and waits for its next change.

use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use http::header::DATE;
use http_body_util::BodyExt as _;
use jiff::fmt::rfc2822;
use kube::{
    Api, Client, Resource,
    api::{GetParams, Request, WatchEvent, WatchParams},
    client::Body,
    core::Status,
};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// Timeout of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Time after which the object is read again although its watch has delivered nothing.
const WATCH_S: u32 = 60;
/// Time after which a watch is given up. The API server ends it before: a connection that is dead does not.
const WATCH_LIMIT: Duration = Duration::from_secs(WATCH_S as u64 + 5);
/// Pause after a watch that could not begin.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the API server did not return the object")]
    Api(#[source] Box<kube::Error>),
    #[error("the API server did not answer within {REQUEST_LIMIT:?}")]
    Slow,
    #[error("cannot read the API server's answer")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The API server refuses the request.
    #[error("the API server refused the request: {0}")]
    Refused(String),
}

/// An object, and the API server's time of day.
#[derive(Debug)]
pub(super) struct ReadObject<K> {
    /// `None` if there is no such object.
    pub(super) object: Option<K>,
    /// `None` if the answer has no readable `Date`.
    pub(super) server_time: Option<SystemTime>,
}

/// Reads an object by its name.
///
/// # Errors
/// The API server does not answer in time, or refuses to.
pub(super) async fn read<K>(client: &Client, api: &Api<K>, name: &str) -> Result<ReadObject<K>, ReadError>
where
    K: Resource + DeserializeOwned,
{
    let request = Request::new(api.resource_url()).get(name, &GetParams::default());
    let request = request.map_err(|error| ReadError::Answer(Box::new(error)))?;
    let answered = async {
        let response = client.send(request.map(Body::from)).await?;
        let (parts, body) = response.into_parts();
        Ok((parts, body.collect().await?.to_bytes()))
    };
    let (parts, body) = timeout(REQUEST_LIMIT, answered)
        .await
        .map_err(|_elapsed| ReadError::Slow)?
        .map_err(|error| ReadError::Api(Box::new(error)))?;
    let date = parts.headers.get(DATE).and_then(|date| date.to_str().ok());
    let server_time = date.and_then(time_of);
    let unreadable = |error: serde_json::Error| ReadError::Answer(Box::new(error));
    let object = match parts.status.as_u16() {
        200 => Some(serde_json::from_slice(&body).map_err(unreadable)?),
        404 => None,
        _ => {
            let status: Status = serde_json::from_slice(&body).map_err(unreadable)?;
            return Err(ReadError::Refused(status.message));
        }
    };
    Ok(ReadObject { object, server_time })
}

/// Waits until the object with this name has another version than `version`, or for a minute.
pub(super) async fn changed<K>(api: &Api<K>, name: &str, version: &str)
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    if timeout(WATCH_LIMIT, next_event(api, name, version))
        .await
        .is_err()
    {
        debug!(name, "the watch did not end in time");
    }
}

async fn next_event<K>(api: &Api<K>, name: &str, version: &str)
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let params = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(WATCH_S);
    let mut events = match api.watch(&params, version).await {
        Ok(events) => Box::pin(events),
        Err(error) => {
            debug!(name, %error, "the watch could not begin");
            return sleep(RETRY_AFTER).await;
        }
    };
    loop {
        match events.next().await {
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            // Read again: the version may be too old for a watch.
            Some(Ok(WatchEvent::Error(_)) | Err(_)) => return sleep(RETRY_AFTER).await,
            Some(Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_))) | None => {
                return;
            }
        }
    }
}

/// Time of an HTTP `Date` header.
fn time_of(date: &str) -> Option<SystemTime> {
    let zoned = rfc2822::parse(date).ok()?;
    Some(zoned.timestamp().into())
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http::Response;
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_on_a_dead_connection_is_given_up() {
        let silent = tower::service_fn(|_request: http::Request<Body>| {
            pending::<Result<Response<Body>, Infallible>>()
        });
        let api: Api<Secret> = Api::namespaced(Client::new(silent, "default"), "ns");
        let watched = timeout(2 * WATCH_LIMIT, changed(&api, "a", "1")).await;
        watched.expect("it ends by itself");
    }

    #[test]
    fn the_date_of_an_answer_is_read() {
        let time = time_of("Sun, 06 Nov 1994 08:49:37 GMT");
        let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(time, Some(expected));
        assert_eq!(time_of("yesterday"), None);
    }
}
