//! [`Refusal`]: what an answer refuses with, for the person who made the request, and how it stands on the wire.

use std::fmt;

use http::StatusCode;

use crate::store::policies::koordinator_entries::Conflict;

/// A rule's no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// A value is not accepted.
    #[error("{field}: invalid value {value:?}: {reason}")]
    Value {
        /// The field, as in `metadata.annotations[key]`.
        field: String,
        /// The value, shortened.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// With these labels several entries of one key would select the Node. The text is Koordinator's.
    #[error("{}", conflict.in_koordinators_words(node))]
    Conflict {
        /// The Node's name.
        node: String,
        /// The key and its entries.
        conflict: Conflict,
    },
    /// One text for the whole object.
    #[error("{0}")]
    Text(String),
}

/// Code and reason of the status that a refusal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenialStyle {
    /// The HTTP code inside the answer.
    pub code: StatusCode,
    /// The reason; `None` for a code alone.
    pub reason: Option<&'static str>,
}

/// All that the steps of one endpoint said no to; empty while none has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    style: DenialStyle,
    denials: Vec<Denial>,
}

impl DenialStyle {
    /// Koordinator's own: a code alone.
    pub const KOORDINATOR: Self = Self {
        code: StatusCode::BAD_REQUEST,
        reason: None,
    };
    /// A rule forbids it.
    pub const FORBIDDEN: Self = Self {
        code: StatusCode::FORBIDDEN,
        reason: Some("Forbidden"),
    };
    /// A value is not valid; the fields are in the details.
    pub const INVALID: Self = Self {
        code: StatusCode::UNPROCESSABLE_ENTITY,
        reason: Some("Invalid"),
    };
}

impl Refusal {
    /// Nothing is refused yet; what comes has this style where it has none of its own.
    pub const fn new(style: DenialStyle) -> Self {
        Self {
            style,
            denials: Vec::new(),
        }
    }

    /// Adds a no.
    pub fn push(&mut self, denial: Denial) {
        self.denials.push(denial);
    }

    /// True if nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.denials.is_empty()
    }

    /// Code and reason: those that the first denial has of its own, else those of the endpoint.
    pub fn style(&self) -> DenialStyle {
        match self.denials.first() {
            Some(Denial::Conflict { .. }) => DenialStyle::KOORDINATOR,
            Some(Denial::Value { .. } | Denial::Text(_)) | None => self.style,
        }
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self {
            style: DenialStyle::FORBIDDEN,
            denials: vec![denial],
        }
    }
}

impl fmt::Display for Refusal {
    /// One denial as it is; several in brackets, as Kubernetes lists errors. A text that stood before is not repeated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for denial in &self.denials {
            let text = denial.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}
