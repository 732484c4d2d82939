//! Finds the innermost cause of an error, because the errors that transports wrap around it add nothing.

/// The innermost cause of an error; the error itself if it has no cause.
pub(crate) fn innermost<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> &'e (dyn std::error::Error + 'static) {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .unwrap_or(error)
}
