"""The results page: what recipes have left in their folders, as static HTML that opens from a disk. Without torch."""
