// A bare import is resolved from the file it stands in: this one gives the packages of its own folder.
export const load = (name) => import(name);
