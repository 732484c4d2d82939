//! [`RequestBody`]: the body of a request, whose end makes the connection busy.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::answering::Answering;

/// Body of a request. The connection may be closed for others until the body is complete.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    /// `None` once the body is complete.
    answering: Option<Answering>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, answering: Option<Answering>) -> Self {
        let mut body = Self { incoming, answering };
        body.note_end();
        body
    }

    fn note_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.complete();
        }
    }

    fn complete(&mut self) {
        if let Some(answering) = self.answering.take() {
            answering.begin_answer();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        match &polled {
            Poll::Ready(None) => self.complete(),
            Poll::Ready(Some(Ok(_))) => self.note_end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
