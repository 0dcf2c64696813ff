"""`nabla demo`: a small shop whose views are kept up to date while it does business."""
