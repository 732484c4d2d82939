//! Reads the claims of a token without verifying them. They only save a TokenReview for tokens that cannot be valid.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use headroom_domain::names;
use serde::Deserialize;

use super::StreamError;

/// Longest validity of a viewer's token, from its creation to its expiry. `kubectl headroom` requests ten minutes, the
/// shortest that the API server issues.
const LONGEST_VALIDITY: Duration = Duration::from_secs(15 * 60);
/// Longest part of a client's claim that is repeated to it, in characters.
const LONGEST_QUOTE: usize = 100;

/// Claims of a JSON Web Token that are read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Claims {
    /// Expiry of the token, in seconds since 1970.
    exp: Option<f64>,
    /// Creation of the token, in seconds since 1970.
    iat: Option<f64>,
    #[serde(default)]
    iss: String,
    #[serde(default)]
    aud: Audiences,
}

/// `aud` is a text or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Many(Vec<String>),
}

impl Default for Audiences {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Claims {
    /// Claims of a token; `None` if it does not consist of three parts with claims in the middle.
    pub(super) fn read(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// The claims of a token that a client may show: not past its end, and for us.
    ///
    /// # Errors
    /// It is no such token, so that the API server need not be asked.
    pub(super) fn for_webhook(token: &str, now: SystemTime) -> Result<Self, StreamError> {
        let claims = Self::read(token).ok_or(StreamError::BadToken)?;
        // Tokens that the API server makes for an audience always end.
        let end = claims.end().ok_or(StreamError::BadToken)?;
        if end <= now {
            return Err(StreamError::Expired);
        }
        if !claims
            .audiences()
            .iter()
            .any(|audience| audience == names::TOKEN_AUDIENCE)
        {
            let found = claims.audiences().join(" ");
            return Err(StreamError::ForeignAudience {
                found: found.chars().take(LONGEST_QUOTE).collect(),
            });
        }
        Ok(claims)
    }

    /// Checks the validity of a viewer's token. A copied token works until its end, and its creator can choose any
    /// validity.
    ///
    /// # Errors
    /// It is valid for too long, or its claims do not contain both times.
    pub(super) fn check_validity(&self) -> Result<(), StreamError> {
        let (Some(created), Some(end)) = (self.iat, self.exp) else {
            return Err(StreamError::BadToken);
        };
        let validity =
            Duration::try_from_secs_f64(end - created).map_err(|_invalid| StreamError::BadToken)?;
        if validity > LONGEST_VALIDITY {
            return Err(StreamError::LongValidity {
                validity,
                longest: LONGEST_VALIDITY,
            });
        }
        Ok(())
    }

    /// Expiry of the token; `None` if the claim is missing or not a time.
    pub(super) fn end(&self) -> Option<SystemTime> {
        let since = Duration::try_from_secs_f64(self.exp?).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(since)
    }

    /// Issuer of the token; empty if the claim is missing.
    pub(super) fn issuer(&self) -> &str {
        &self.iss
    }

    fn audiences(&self) -> &[String] {
        match &self.aud {
            Audiences::One(audience) => std::slice::from_ref(audience),
            Audiences::Many(audiences) => audiences,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn token(claims: &str) -> String {
        format!("head.{}.signature", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[rstest]
    #[case::text(r#"{"exp":10,"aud":"headroom-webhook","iss":"here"}"#)]
    #[case::list(r#"{"exp":10,"aud":["other","headroom-webhook"],"iss":"here"}"#)]
    fn a_clients_token_is_for_us_and_has_time_left(#[case] claims: &str) {
        let claims = Claims::for_webhook(&token(claims), at(9)).unwrap();
        assert_eq!((claims.end(), claims.issuer()), (Some(at(10)), "here"));
    }

    #[rstest]
    #[case::no_claims("garbage", "bad_token")]
    #[case::four_parts("a.e30.c.d", "bad_token")]
    #[case::not_json(&token("x"), "bad_token")]
    #[case::endless(&token(r#"{"aud":"headroom-webhook"}"#), "bad_token")]
    #[case::no_time(&token(r#"{"exp":-1,"aud":"headroom-webhook"}"#), "bad_token")]
    #[case::beyond_time(&token(r#"{"exp":1e300,"aud":"headroom-webhook"}"#), "bad_token")]
    #[case::past(&token(r#"{"exp":9,"aud":"headroom-webhook"}"#), "expired")]
    #[case::for_nobody(&token(r#"{"exp":10}"#), "foreign_audience")]
    #[case::for_another(&token(r#"{"exp":10,"aud":["https://kubernetes.default.svc"]}"#), "foreign_audience")]
    fn another_token_is_not_asked_about(#[case] token: &str, #[case] label: &str) {
        let refused = Claims::for_webhook(token, at(9)).unwrap_err();
        assert_eq!(refused.label(), label);
    }

    #[rstest]
    #[case::shortest(600.0, "valid")]
    #[case::longest(900.0, "valid")]
    #[case::longer(901.0, "long_validity")]
    #[case::a_year(31_536_000.0, "long_validity")]
    #[case::created_after_its_end(-1.0, "bad_token")]
    fn tokens_of_viewers_are_valid_for_at_most_15_minutes(#[case] validity: f64, #[case] label: &str) {
        let claims = format!(
            r#"{{"iat":1000,"exp":{},"aud":"headroom-webhook"}}"#,
            1000.0 + validity
        );
        let checked = Claims::read(&token(&claims)).unwrap().check_validity();
        let found = checked.as_ref().map_or_else(StreamError::label, |()| "valid");
        assert_eq!(found, label, "{checked:?}");
    }

    #[test]
    fn a_viewers_token_without_its_creation_time_is_refused() {
        let claims = Claims::read(&token(r#"{"exp":10,"aud":"headroom-webhook"}"#)).unwrap();
        assert_eq!(claims.check_validity().unwrap_err().label(), "bad_token");
    }

    #[test]
    fn a_foreign_audience_is_quoted_in_short() {
        let claims = format!(r#"{{"exp":10,"aud":"{}"}}"#, "a".repeat(5000));
        let text = Claims::for_webhook(&token(&claims), at(9))
            .unwrap_err()
            .to_string();
        assert!(text.len() < 250 && text.contains("headroom-webhook"), "{text}");
    }
}
