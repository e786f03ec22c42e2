// The page's few signs, drawn here: no font has them all, and some draw them as coloured pictures.

const PATHS = {
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 2.5h3v11H4zM9 2.5h3v11H9z",
  next: "M4 3v10l6-5zM11 3h1.6v10H11z",
  back: "M12 3v10L6 8zM3.4 3H5v10H3.4z",
  first: "M13 3v10L8 8zM8 3v10L3 8zM1.6 3h1.5v10H1.6z",
  last: "M3 3v10l5-5zM8 3v10l5-5zM12.9 3h1.5v10h-1.5z",
  left: "M10.5 2.5 5 8l5.5 5.5 1.1-1.1L7.2 8l4.4-4.4z",
  warn: "M8 1.6 15 14H1zM7.2 6v4h1.6V6zm0 5v1.6h1.6V11z",
  info: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM7.2 7v5h1.6V7zm0-2.8v1.6h1.6V4.2z",
  close: "M3.6 2.5 8 6.9l4.4-4.4 1.1 1.1L9.1 8l4.4 4.4-1.1 1.1L8 9.1l-4.4 4.4-1.1-1.1L6.9 8 2.5 3.6z",
  sun: "M8 4.6a3.4 3.4 0 1 1 0 6.8 3.4 3.4 0 0 1 0-6.8zM7.3.8h1.4v2H7.3zm0 12.4h1.4v2H7.3zM.8 7.3h2v1.4h-2zm12.4 0h2v1.4h-2zM2.4 3.4l1-1 1.4 1.4-1 1zm8.8 8.8 1-1 1.4 1.4-1 1zM3.4 13.6l-1-1 1.4-1.4 1 1zm8.8-8.8-1-1 1.4-1.4 1 1z",
  moon: "M13.6 10.2A6 6 0 0 1 5.8 2.4a6 6 0 1 0 7.8 7.8z",
  half: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zm0 1.5v9.4a4.7 4.7 0 0 0 0-9.4z",
  help: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zm0 1.4a5.1 5.1 0 1 0 0 10.2A5.1 5.1 0 0 0 8 2.9zM7.2 10.4h1.6V12H7.2zM8 4.3c1.5 0 2.6.9 2.6 2.2 0 1.5-1.7 1.8-1.8 3.1H7.2c0-2 1.8-2.2 1.8-3.1 0-.4-.4-.7-1-.7s-1 .4-1 1H5.4c0-1.500 1.100-2.500 2.600-2.500z",
  search:
    "M6.800 1.800a5 5 0 0 1 3.950 8.060l3.500 3.500-1.100 1.100-3.500-3.500A5 5 0 1 1 6.800 1.800zm0 1.500a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path fill-rule="evenodd" d={PATHS[name]} />
    </svg>
  );
}
