//! Values of flags that may contain secrets: URLs and headers. Errors of their parsers do not print the secret.

use std::{ffi::OsStr, str::FromStr};

use clap::{Arg, Command, builder::TypedValueParser, error::ErrorKind};
use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::connect::without_login;

/// URL of a Prometheus server, without the user that it may contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    pub(super) uri: Uri,
    pub(super) user: Option<String>,
}

/// A header of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(super) name: HeaderName,
    /// Marked as sensitive, so that it is never logged.
    pub(super) value: HeaderValue,
}

/// Parser of a flag whose value is printed in parts only.
#[derive(Debug, Clone)]
pub(super) struct PrivateParser<T> {
    parse: fn(&str) -> Result<T, String>,
    /// The part of a refused value that is printed.
    shown: fn(&str) -> String,
}

pub(super) fn url_parser() -> PrivateParser<ServerUrl> {
    PrivateParser {
        parse: str::parse,
        shown: without_login,
    }
}

pub(super) fn header_parser() -> PrivateParser<Header> {
    PrivateParser {
        parse: str::parse,
        shown: |_| "***".to_owned(),
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for PrivateParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, flag: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let value = value.to_string_lossy();
        (self.parse)(&value).map_err(|reason| {
            let flag = flag.map_or_else(String::new, ToString::to_string);
            let shown = (self.shown)(&value);
            let message = format!("invalid value '{shown}' for '{flag}': {reason}\n");
            clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || "not a URL such as http://127.0.0.1:9090 or https://host/prefix".to_owned();
        let uri: Uri = text.parse().map_err(|_invalid| refuse())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.query().is_some() || uri.host().is_none_or(str::is_empty) {
            return Err(refuse());
        }
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let Some((login, host)) = authority.rsplit_once('@') else {
            return Ok(Self { uri, user: None });
        };
        if login.contains(':') {
            return Err(
                "a URL must not contain a password; set HEADROOM_PROMETHEUS_PASSWORD or --prometheus-password-file"
                    .to_owned(),
            );
        }
        let user = percent_decode_str(login)
            .decode_utf8()
            .map_err(|_invalid| refuse())?;
        let user = (!user.is_empty()).then(|| user.into_owned());
        let mut parts = uri.clone().into_parts();
        parts.authority = Some(host.parse().map_err(|_invalid| refuse())?);
        let uri = Uri::from_parts(parts).map_err(|_invalid| refuse())?;
        Ok(Self { uri, user })
    }
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || "not NAME: VALUE, such as X-Scope-OrgID: team-a".to_owned();
        let (name, value) = text.split_once(':').ok_or_else(refuse)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_invalid| refuse())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_invalid| refuse())?;
        value.set_sensitive(true);
        Ok(Self { name, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_taken_out_of_the_url() {
        for (text, uri, user) in [
            ("http://h:1/p", "http://h:1/p", None),
            ("http://an%40n@h:1/p", "http://h:1/p", Some("an@n")),
            ("https://@[::1]", "https://[::1]/", None),
        ] {
            let parsed: ServerUrl = text.parse().unwrap();
            assert_eq!(
                (parsed.uri.to_string().as_str(), parsed.user.as_deref()),
                (uri, user)
            );
        }
        for bad in ["http://a:b@h", "http://a:@h", "http://", "http://h?q", "a@h"] {
            bad.parse::<ServerUrl>().unwrap_err();
        }
    }

    #[test]
    fn a_header_is_trimmed_and_sensitive() {
        let header: Header = "X-Scope-OrgID:  a:b ".parse().unwrap();
        assert_eq!(
            (header.name.as_str(), header.value.as_bytes()),
            ("x-scope-orgid", &b"a:b"[..])
        );
        assert!(header.value.is_sensitive() && !format!("{header:?}").contains("a:b"));
    }
}
