//! [`RawEvent`]: one line of a watch, whose object is not read yet. A typed event would lose its object's names where the
//! object cannot be read.

use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

/// An event of a watch.
#[derive(Debug)]
pub(super) enum RawEvent<'l> {
    /// A new or changed object.
    Applied(&'l RawValue),
    Deleted(&'l RawValue),
    /// A resource version up to which all events were sent.
    Bookmark(String),
}

/// A line that is not an event.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("the API server ended the watch")]
    Ended(#[source] kube::Error),
    #[error("the event has the unknown type {0:?}")]
    UnknownType(String),
    #[error("the event cannot be read")]
    Unreadable(#[from] serde_json::Error),
}

#[derive(Deserialize)]
struct Line<'l> {
    r#type: String,
    #[serde(borrow)]
    object: &'l RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
}

impl<'l> RawEvent<'l> {
    /// Reads a line.
    ///
    /// # Errors
    /// It contains an error of the API server, or no event.
    pub(super) fn parse(line: &'l str) -> Result<Self, LineError> {
        let Line { r#type, object } = serde_json::from_str(line).map_err(|error| {
            // A proxy or the API server may send an error without an event around it.
            let status = serde_json::from_str::<Status>(line).ok();
            let has_code = status.filter(|status| status.code > 0);
            has_code.map_or(LineError::Unreadable(error), ended)
        })?;
        match r#type.as_str() {
            "ADDED" | "MODIFIED" => Ok(Self::Applied(object)),
            "DELETED" => Ok(Self::Deleted(object)),
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(object.get())?;
                Ok(Self::Bookmark(bookmark.metadata.resource_version))
            }
            "ERROR" => Err(ended(serde_json::from_str(object.get())?)),
            _ => Err(LineError::UnknownType(r#type)),
        }
    }
}

fn ended(status: Status) -> LineError {
    LineError::Ended(kube::Error::Api(Box::new(status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_an_event_may_have_any_order() {
        for line in [
            r#"{"type":"MODIFIED","object":{"a":1}}"#,
            r#"{"object":{"a":1},"type":"ADDED"}"#,
        ] {
            let event = RawEvent::parse(line).unwrap();
            assert!(
                matches!(event, RawEvent::Applied(object) if object.get() == r#"{"a":1}"#),
                "{event:?}"
            );
        }
        let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"12"}}}"#;
        assert!(matches!(RawEvent::parse(bookmark).unwrap(), RawEvent::Bookmark(version) if version == "12"));
    }

    #[test]
    fn errors_of_the_api_server_keep_their_code() {
        let status =
            r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}"#;
        for line in [
            status.to_owned(),
            format!(r#"{{"type":"ERROR","object":{status}}}"#),
        ] {
            let error = RawEvent::parse(&line).unwrap_err();
            let LineError::Ended(kube::Error::Api(status)) = &error else {
                panic!("{error:?}");
            };
            assert_eq!(status.code, 410);
        }
        for line in [
            "",
            "{}",
            r#"{"type":"NEW","object":{}}"#,
            r#"{"type":"BOOKMARK","object":{}}"#,
        ] {
            let error = RawEvent::parse(line).unwrap_err();
            assert!(!matches!(error, LineError::Ended(_)), "{line}: {error:?}");
        }
    }
}
